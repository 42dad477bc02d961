"""How the page around the viewer looks: system fonts, the project's two hues, nothing from another host."""

from __future__ import annotations

import gradio as gr

_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Noto Sans", "Noto Sans KR", "sans-serif"]
_MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]

PAGE_CSS = """
.gradio-container { max-width: 1680px !important; margin: 0 auto; }
#kvr-head { align-items: end; position: relative; }
#kvr-language { position: absolute; top: 6px; right: 0; padding: 0 !important; }
#kvr-title h1 { margin: 0; font-size: 26px; }
#kvr-title p { margin: 2px 0 0; font-size: 15px; }
#kvr-models, #kvr-count, #kvr-reference, #kvr-changed, #kvr-status-line { font-size: 14px; }
#kvr-models { text-align: right; padding-top: 28px !important; }
#kvr-status-line { min-height: 24px; }
#kvr-lane .column { gap: 10px; }
#kvr-new { align-self: end; }
#kvr-reset { flex-grow: 0; min-width: 140px; }
#kvr-assumptions table { font-size: 13px; }
#kvr-view { overflow: visible; padding: 12px 0 0 !important; border-top: 1px solid var(--border-color-primary); }
@media (forced-colors: active) {
  .gradio-container :is(button, input, textarea, label) { border: 1px solid ButtonText; }
  .gradio-container label.selected { outline: 3px solid Highlight; }
  .gradio-container input[type="range"] { forced-color-adjust: none; accent-color: auto; appearance: auto; }
}
@media (max-width: 700px) {
  #kvr-head { flex-direction: column; align-items: start; }
  #kvr-models { text-align: left; padding-top: 0 !important; }
}
"""

# Ctrl+Enter in the problem box runs; the status line is announced; nothing else listens to keys.
PAGE_JS = """() => {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest?.("#kvr-problem")) {
      event.preventDefault();
      document.querySelector("#kvr-run")?.click();
    }
  });
  // On a phone the story is below the controls: go there when it begins.
  document.addEventListener("click", (event) => {
    const began = event.target.closest?.("#kvr-run, #kvr-compare");
    if (began && window.innerWidth < 700) document.querySelector("#kvr-view")?.scrollIntoView({ block: "start" });
  });
  const status = document.querySelector("#kvr-status-line");
  status?.setAttribute("role", "status");
  status?.setAttribute("aria-live", "polite");
}"""


def theme() -> gr.themes.Base:
    return gr.themes.Base(primary_hue=gr.themes.colors.blue, neutral_hue=gr.themes.colors.zinc, font=_FONTS, font_mono=_MONO, radius_size="sm").set(
        button_primary_background_fill="#0b5fa5",
        button_primary_background_fill_hover="#094d87",
        button_primary_background_fill_dark="#6cb6ff",
        button_primary_background_fill_hover_dark="#8fc7ff",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#111827",
        slider_color="#0b5fa5",
        slider_color_dark="#6cb6ff",
    )
