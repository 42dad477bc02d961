// The only way this viewer makes nodes. Text always goes through textContent: model text is hostile.

/** @param {string} tag @param {string} [className] @param {string} [text] */
export function el(tag, className = "", text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Append children and return the parent. */
export function put(parent, ...children) {
  parent.append(...children.filter(Boolean));
  return parent;
}

/** Set text only when it changed, so that selections and screen readers are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A button that opens and closes `panel`. Escape inside closes it and gives the focus back. */
export function expander(button, panel, onOpen) {
  panel.hidden = true;
  panel.id = `kvr-panel-${expander.next++}`;
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", panel.id);
  const show = (open) => {
    if (open) onOpen?.();
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => show(panel.hidden));
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    show(false);
    button.focus();
  });
}
expander.next = 1;
