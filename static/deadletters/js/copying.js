// Copy buttons. Without HTTPS there is no clipboard: the older command is tried, and else the text is selected.

import { toast } from "./toasts.js";
import { words } from "./words.js";

const DONE_MS = 1500;

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

// Selects a copy of the text outside the page's sight, so that what is copied is exactly what the button carries.
function copyByCommand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  area.readOnly = true;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
  }
}

async function put(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByCommand(text);
  }
}

async function copy(button) {
  const isCopied = await put(button.dataset.copy);
  button.focus();
  if (!isCopied) {
    if (button.previousElementSibling) select(button.previousElementSibling);
    toast(words.copyByHand);
    return;
  }
  toast(words.copied);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), DONE_MS);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
