// Makes DOM nodes. Text of users and models is inserted as text, never as markup.

/** `make("p", {class: "hint"}, "text", child, ..)` */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);
