"""Headers that restrict what a browser does with a response, errors included.

A route that needs another value sets the header itself: what is there is kept.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from .base import HttpMiddleware


def content_policy(*, style: str = "'self'") -> str:
    """Return the Content-Security-Policy: nothing from elsewhere, no inline script.

    `style="'self' 'unsafe-inline'"` is for a page whose figures write styles.
    """
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            f"style-src {style}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )


INLINE_STYLES = content_policy(style="'self' 'unsafe-inline'")

DEFAULTS = {
    "Content-Security-Policy": content_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


class SecurityHeaders(HttpMiddleware):
    """Adds DEFAULTS to every response; must be the outermost middleware."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULTS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)
