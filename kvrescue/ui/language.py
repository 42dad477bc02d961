"""The page in the language that its address asks for (?lang=ko), and the links that switch it."""

from __future__ import annotations

import json

import gradio as gr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvrescue.ui.words import LANGUAGES, table

# Gradio translates by what the browser says of itself, once, before anything of ours runs in the page.
ASKED_JS = f"""(() => {{
  const asked = new URLSearchParams(location.search).get("lang");
  if (!{json.dumps(LANGUAGES)}.includes(asked)) return;
  Object.defineProperties(navigator, {{ language: {{ value: asked }}, languages: {{ value: [asked] }} }});
}})()"""
HEAD = b"<head>"
SWITCH_JS = """
const base = new URL("kvrescue/", (window.gradio_config?.root || window.location.origin) + "/");
import(new URL("assets/js/language.mjs", base)).then(({ languages }) => element.replaceChildren(languages()));
"""


def toast_css() -> str:
    """Gradio 6.31 heads a toast with its kind in English, whatever title it is given; this writes the kind's word in front and hides Gradio's."""
    rules = []
    for language in LANGUAGES[1:]:
        rules.append(f"html:lang({language}) .toast-title {{ font-size: 0; }}\n.toast-title .toast-count {{ font-size: 16px; }}")
        for kind in ("error", "warning", "info"):
            word = json.dumps(table(language)[f"toast.{kind}"], ensure_ascii=False)
            rules.append(f"html:lang({language}) .toast-title.{kind}::before {{ content: {word}; font-size: 16px; }}")
    return "\n".join(rules)


class AskedLanguage:
    """Puts ASKED_JS at the head of the page: Gradio's own ``head`` comes too late for it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/"):
            return await self.app(scope, receive, send)
        start: Message = {}

        async def changed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # held back: the body decides its length
                return
            if start:
                body = message.get("body", b"").replace(HEAD, HEAD + f"<script>{ASKED_JS}</script>".encode(), 1)
                added = len(body) - len(message.get("body", b""))
                message = {**message, "body": body}
                headers = [(name, str(int(value) + added).encode() if name == b"content-length" else value) for name, value in start["headers"]]
                await send({**start, "headers": headers})
                start = {}
            await send(message)

        await self.app(scope, receive, changed)


def switch() -> gr.HTML:
    """English · 한국어, for the head of the page."""
    return gr.HTML(value="", html_template="<div></div>", js_on_load=SWITCH_JS, apply_default_css=False, padding=False, elem_id="kvr-language")
