// The search as a combobox: suggestions for the word before the caret, taken with the keyboard or a click.

const box = () => document.getElementById("search");
const list = () => document.getElementById("suggestions");
const options = () => [...list().querySelectorAll("[role=option]")];
const selected = () => list().querySelector("[aria-selected=true]");
const LAST_WORD = /(?:[a-z_]{1,40}:)?(?:"[^"]*|[^\s"]*)$/;

let closed = true; // what arrives after it was closed stays hidden

function enhance() {
  const input = box();
  if (!input || input.hasAttribute("role")) return;
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", "suggestions");
  input.setAttribute("aria-expanded", "false");
}

function say() {
  const isOpen = !closed && options().length > 0 && document.activeElement === box();
  list().hidden = !isOpen;
  box().setAttribute("aria-expanded", String(isOpen));
  const active = isOpen ? selected() : null;
  if (active) box().setAttribute("aria-activedescendant", active.id);
  else box().removeAttribute("aria-activedescendant");
}

function select(option) {
  selected()?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  say();
}

function step(by) {
  const all = options();
  if (list().hidden) return false;
  const at = all.indexOf(selected());
  select(at < 0 ? all.at(by > 0 ? 0 : -1) : all[(at + by + all.length) % all.length]);
  return true;
}

function take(option) {
  const input = box();
  const before = input.value.slice(0, input.selectionStart);
  const after = input.value.slice(input.selectionStart);
  const whole = "whole" in option.dataset && !after.startsWith(" ") ? " " : "";
  const kept = before.replace(LAST_WORD, "") + option.dataset.text + whole;
  input.value = kept + after;
  input.setSelectionRange(kept.length, kept.length);
  list().replaceChildren();
  say();
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

function close() {
  closed = true;
  list().replaceChildren();
  say();
}

const KEYS = {
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  Enter: () => (selected() && !list().hidden ? (take(selected()), true) : (close(), false)),
  Tab: () => (selected() && !list().hidden ? (take(selected()), true) : false),
  Escape: () => (closed ? false : (close(), true)),
};

// Before the keys of the page: one Escape closes the suggestions and no more.
const FIRST = true;
document.addEventListener("keydown", (event) => {
  if (event.target !== box() || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (KEYS[event.key]?.()) event.preventDefault();
}, FIRST);

document.addEventListener("input", (event) => {
  if (event.target === box()) closed = false;
});

document.addEventListener("pointerdown", (event) => {
  const option = event.target.closest?.("#suggestions [role=option]");
  if (!option) return;
  event.preventDefault(); // the box keeps the focus
  take(option);
});

document.addEventListener("focusout", (event) => {
  if (event.target === box()) close();
});

// Only what stands before the caret is asked about.
document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt !== box()) return;
  event.detail.parameters.set?.("search", box().value.slice(0, box().selectionStart));
  if (!event.detail.parameters.set) event.detail.parameters.search = box().value.slice(0, box().selectionStart);
});

document.addEventListener("htmx:afterSwap", () => {
  if (!box()) return;
  enhance();
  say();
});

enhance();
