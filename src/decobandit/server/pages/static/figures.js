"use strict";
// Draws the figures of a trial: the server sends them ready, here they get the size of the screen.

const frames = [...document.querySelectorAll("[data-figure]")];
const darkness = matchMedia("(prefers-color-scheme: dark)");
const NARROW = 640;
const config = { displaylogo: false, responsive: true, showLink: false, displayModeBar: false };

function fitted(layout, width) {
  if (width >= NARROW) return layout;
  // one name per line, below the title of the axis; heights are in parts of what is drawn
  const inside = layout.height - layout.margin.t - layout.margin.b;
  const names = 20 * (layout.meta?.names ?? 0);
  const below = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", yanchor: "top" };
  below.y = -56 / inside;
  return {
    ...layout,
    legend: below,
    height: layout.height + names + 12,
    margin: { ...layout.margin, l: 52, r: 6, b: layout.margin.b + names + 12 },
  };
}

async function draw() {
  const sources = new Set(frames.map((frame) => frame.dataset.source));
  for (const source of sources) {
    const query = new URLSearchParams({ dark: darkness.matches });
    const answer = await fetch(`${source}${source.includes("?") ? "&" : "?"}${query}`, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const figures = await answer.json();
    for (const frame of frames.filter((each) => each.dataset.source === source)) {
      const figure = figures[frame.dataset.figure];
      if (!figure) continue;
      await Plotly.react(frame, figure.data, fitted(figure.layout, frame.clientWidth), config);
      frame.dataset.drawn = "yes";
    }
  }
}

async function drawAll() {
  try {
    await draw();
  } catch (error) {
    for (const frame of frames) frame.textContent = `The figure cannot be drawn: ${error.message}.`;
  }
}

if (frames.length) {
  drawAll();
  darkness.addEventListener("change", drawAll);
  let wide = innerWidth >= NARROW;
  addEventListener("resize", () => {
    if (wide !== innerWidth >= NARROW) {
      wide = !wide;
      drawAll();
    }
  });
}
