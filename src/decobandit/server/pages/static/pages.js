"use strict";
// Optional: every page but its figures works without scripts.

document.body.classList.add("scripted");

// what was refused is where one goes on
document.querySelector("[aria-invalid]")?.focus();

// -- what cannot simply be undone is read back first --------------------------------------------

function ask(button) {
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.textContent = button.dataset.confirm;
  const row = document.createElement("div");
  row.className = "actions";
  const choice = (label, sure) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    if (sure) made.className = "main";
    made.addEventListener("click", () => {
      dialog.close();
      if (!sure) return;
      button.dataset.confirmed = "yes";
      button.form.requestSubmit(button);
    });
    row.append(made);
    return made;
  };
  const yes = choice(button.dataset.yes, true);
  choice("Go back", false);
  dialog.append(text, row);
  dialog.setAttribute("aria-label", button.dataset.confirm);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  yes.focus();
}

// -- forms are sent once ------------------------------------------------------------------------

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (event.submitter?.dataset.confirm && !event.submitter.dataset.confirmed) {
      event.preventDefault();
      ask(event.submitter);
      return;
    }
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    // later: a disabled button would not be sent with the form
    setTimeout(() => {
      for (const button of form.querySelectorAll("button")) button.disabled = true;
    });
  });
}

window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // restored from the history: buttons may still be disabled
  for (const form of document.querySelectorAll("form[data-once]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[data-confirmed]")) delete button.dataset.confirmed;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
  }
});

// -- keys ---------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  if (event.target.closest("input, select, textarea") || document.querySelector("dialog[open]")) return;
  const key = CSS.escape(event.key.toLowerCase());
  const button = document.querySelector(`button[data-shortcut="${key}"]:enabled`);
  if (button) {
    event.preventDefault();
    button.form.requestSubmit(button);
  }
});

// -- what was done is read out: set after the page has loaded, or a reader does not notice ------

for (const live of document.querySelectorAll("[aria-live]")) {
  const text = live.textContent;
  if (text.trim() === "") continue;
  setTimeout(() => {
    live.textContent = text + "\u00a0";
  }, 150);
}

const result = document.getElementById("expected");
if (result) result.focus();

// -- plan: rows of arms, and of scenarios with a probability for every arm -----------------------

const arms = document.getElementById("arms");
if (arms) {
  const scenarios = document.getElementById("scenarios");
  const truths = (row) => row.querySelector(".truths");
  const count = (text, pattern, number) => text.replace(pattern, (_, before) => before + number);
  const relabel = (rows, what) => {
    for (const [i, row] of [...rows.children].entries()) {
      for (const named of row.querySelectorAll("[aria-label]")) {
        const said = count(named.getAttribute("aria-label"), what, i + 1);
        named.setAttribute("aria-label", said);
      }
    }
  };
  const number = () => {
    relabel(arms, /(arm )\d+/);
    relabel(scenarios, /(scenario )\d+/);
    for (const scenario of scenarios.children) {
      relabel(truths(scenario), /(arm )\d+/);
      for (const [i, label] of [...truths(scenario).children].entries()) {
        const name = arms.children[i].querySelector("[name=arm]").value.trim();
        label.querySelector("span").textContent = name || `Arm ${i + 1}`;
      }
    }
  };
  const empty = (part, all) => {
    for (const wrong of part.querySelectorAll(".wrong")) wrong.remove();
    for (const input of part.querySelectorAll("input")) {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
      if (all || input.name === "arm") input.value = "";
    }
    return part;
  };
  const grows = (button, rows, first, all, also) => {
    button.type = "button"; // no longer what the Enter key sends
    button.addEventListener("click", () => {
      const row = empty(rows.lastElementChild.cloneNode(true), all);
      rows.append(row);
      also();
      number();
      row.querySelector(first).focus();
    });
  };
  const shrinks = (rows, first, also) => {
    rows.addEventListener("click", (event) => {
      const row = event.target.closest(".remove") && event.target.closest(".row, .scenario");
      if (!row || rows.children.length === 1) return;
      const next = row.nextElementSibling || row.previousElementSibling;
      also([...rows.children].indexOf(row));
      row.remove();
      number();
      next.querySelector(first).focus();
    });
  };
  grows(document.getElementById("add"), arms, "[name=arm]", false, () => {
    for (const row of scenarios.children) {
      truths(row).append(empty(truths(row).lastElementChild.cloneNode(true), true));
    }
  });
  shrinks(arms, "[name=arm]", (at) => {
    for (const row of scenarios.children) truths(row).children[at].remove();
  });
  grows(document.getElementById("add-scenario"), scenarios, "[name=scenario]", true, () => {});
  shrinks(scenarios, "[name=scenario]", () => {});
  arms.addEventListener("input", number);
}

// -- plan: a problem file -----------------------------------------------------------------------

const problemFile = document.getElementById("problem-file");
if (problemFile) {
  problemFile.addEventListener("change", async () => {
    const [file] = problemFile.files;
    if (!file) return;
    document.getElementById("problem-text").value = await file.text();
  });
}

// -- copying ------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: copy it with the keyboard";
    }
  });
}

// -- lists: sorted by the column that is pressed, the other way when it is pressed again ----------

for (const table of document.querySelectorAll("table.sortable")) {
  for (const [at, title] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener("click", () => {
      const down = title.ariaSort === "ascending";
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      title.ariaSort = down ? "descending" : "ascending";
      const value = (row) => row.cells[at].dataset.value ?? "";
      const order = new Intl.Collator(undefined, { numeric: true }).compare;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [Number(value(a)), Number(value(b))];
        return Number.isNaN(x) || Number.isNaN(y) ? order(value(a), value(b)) : x - y;
      });
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
    });
  }
}

// -- API: a folded request opens when it is linked to --------------------------------------------

const unfold = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) for (const part of [target, ...target.querySelectorAll(":scope > details")]) part.open = true;
};
addEventListener("hashchange", unfold);
unfold();
