// The only way this viewer makes nodes. Text always goes through textContent: model text is hostile.

/** @param {string} tag @param {string} [className] @param {string} [text] */
export function el(tag, className = "", text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/** @param {string} className @param {string} text @param {() => void} [onClick] */
export function button(className, text, onClick) {
  const node = el("button", className, text);
  node.type = "button";
  if (onClick) node.addEventListener("click", onClick);
  return node;
}

/** A labelled choice; its label is the parent. @param {[string, string][]} options value and words @param {() => void} onChange */
export function select(label, options, onChange) {
  const node = el("select", "kvr-select");
  for (const [value, words] of options) {
    const option = el("option", "", words);
    option.value = value;
    put(node, option);
  }
  node.addEventListener("change", onChange);
  put(el("label", "kvr-choice"), el("span", "", label), node);
  return node;
}

/** A glyph that stands beside its word, so that screen readers need not read it. */
export function glyph(mark, className = "kvr-mark") {
  const node = el("span", className, mark);
  node.setAttribute("aria-hidden", "true");
  return node;
}

/** What a node's words mean, for a pointer that rests on it. */
export function explained(node, words) {
  node.title = words;
  return node;
}

/** Append children (null ones are left out) and return the parent. */
export function put(parent, ...children) {
  parent.append(...children.filter((child) => child !== null && child !== undefined));
  return parent;
}

/** Set text only when it changed, so that selections and screen readers are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let nextPanel = 1;

/** Make `opener` open and close `panel`. Escape inside closes it and gives the focus back. */
export function expander(opener, panel, onOpen) {
  panel.hidden = true;
  panel.id = `kvr-panel-${nextPanel++}`;
  opener.setAttribute("aria-expanded", "false");
  opener.setAttribute("aria-controls", panel.id);
  const show = (open) => {
    if (open) onOpen?.();
    panel.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
  };
  opener.addEventListener("click", () => show(panel.hidden));
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    show(false);
    opener.focus();
  });
}
