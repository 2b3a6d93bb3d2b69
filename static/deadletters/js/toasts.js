// Short messages in the corner. Good news leaves by itself; what went wrong stays until it is closed.

import { words } from "./words.js";

const place = document.getElementById("toasts");
const GONE_AFTER_MS = 8000;

function closeButton(element) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet-button";
  button.setAttribute("aria-label", words.close);
  button.textContent = "×";
  button.addEventListener("click", () => element.remove());
  return button;
}

export function toast(text, { stays = false } = {}) {
  for (const element of [...place.children]) if (element.firstChild.textContent === text) element.remove();
  const element = document.createElement("p");
  element.className = "toast";
  const said = document.createElement("span");
  said.textContent = text;
  element.append(said, closeButton(element));
  place.append(element);
  if (!stays) setTimeout(() => element.remove(), GONE_AFTER_MS);
}
