// Focus after a swap: it stays where it was, or goes to what changed; it never falls back to the top of the page.

let before = null;
let pressed = null;

function describe(element) {
  const { tagName, id, name, value } = element;
  return { tagName, id, name, value: tagName === "BUTTON" ? value : null, href: element.getAttribute("href") };
}

function same(element, was) {
  if (was.id) return element.id === was.id;
  if (was.name) return element.name === was.name && (was.value === null || element.value === was.value);
  return was.href !== null && element.getAttribute("href") === was.href;
}

function find(region, was) {
  return [...region.querySelectorAll(was.tagName)].find((element) => same(element, was) && !element.disabled);
}

document.addEventListener("submit", (event) => {
  pressed = event.submitter;
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { target } = event.detail;
  const active = document.activeElement;
  const asked = event.detail.requestConfig.elt;
  // The button that was pressed is disabled while its answer is awaited, and has lost the focus by now.
  const from = active === document.body && pressed?.form === asked ? pressed : active;
  before = from !== document.body && target?.contains(from) ? { id: target.id, was: describe(from) } : null;
});

document.addEventListener("htmx:afterSwap", () => {
  if (!before || document.activeElement !== document.body) return;
  const region = document.getElementById(before.id);
  const next = region && (find(region, before.was) ?? region);
  before = null;
  if (!next) return;
  if (next === region && !region.hasAttribute("tabindex")) region.tabIndex = -1;
  next.focus({ preventScroll: true });
});
