// Regions that renew themselves: they rest while somebody is at them, and say so; they say since when they are stale.

import { words } from "./words.js";

const note = document.getElementById("live-note");
const fresh = new Map(); // when each region was last right
const resting = new Set();
const stale = new Set();
const opened = Date.now();
let isSignedOut = false;

// A region is replaced by its answers: it is known by its id, or by where it asks.
const key = (region) => region.id || region.getAttribute("hx-get")?.split("?")[0] || "";

export const isPoll = (element) => element?.hasAttribute?.("data-poll") ?? false;

const holds = (region, element) => element !== null && region.contains(element);
const CONTROLS = "input:not([type=hidden], [type=checkbox], [type=radio]), textarea, select";

export function isEdited(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") {
    const options = [...field.options];
    if (!options.some((option) => option.defaultSelected)) return field.selectedIndex > 0;
    return options.some((option) => option.selected !== option.defaultSelected);
  }
  return field.value !== field.defaultValue;
}

// Nothing that is typed, picked, marked or opened may be taken away by an answer that comes by itself.
function isUsed(region) {
  const selection = getSelection();
  return (
    (holds(region, document.activeElement) && document.activeElement.matches(CONTROLS)) ||
    (!selection.isCollapsed && holds(region, selection.anchorNode)) ||
    region.querySelector("input.pick:checked, details.menu[open], .current, [data-opened]") !== null ||
    [...region.querySelectorAll(CONTROLS)].some(isEdited) ||
    (region.dataset.poll === "rest" && holds(region, document.activeElement))
  );
}

// What a person opened is told from what the server sent open.
document.addEventListener("click", (event) => {
  const details = event.target.closest("summary")?.parentElement;
  if (!details) return;
  if (details.open) delete details.dataset.opened;
  else details.dataset.opened = "yes";
});

function say() {
  const here = new Set([...document.querySelectorAll("[data-poll]")].map(key));
  for (const name of [...stale]) if (!here.has(name)) stale.delete(name);
  let text = "";
  if (isSignedOut) text = words.signedOut;
  else if (stale.size) {
    const since = Math.min(...[...stale].map((name) => fresh.get(name) ?? opened));
    text = `${words.stale} ${new Date(since).toLocaleTimeString(undefined, { timeStyle: "short" })}`;
  } else if (resting.size) text = words.paused;
  note.classList.toggle("stale", isSignedOut || stale.size > 0);
  if (note.textContent !== text) note.textContent = text;
}

export function wentWrong(region) {
  stale.add(key(region));
  say();
}

function wentWell(region) {
  fresh.set(key(region), Date.now());
  stale.delete(key(region));
  resting.delete(key(region));
  say();
}

// A poll that finds the session ended leads to the sign-in, but not away from what somebody has typed.
const leadsAway = (xhr) => xhr?.getResponseHeader("HX-Redirect");
const isTyping = () => [...document.querySelectorAll("main form[method=post]")].some((form) => [...form.querySelectorAll(CONTROLS)].some(isEdited));

document.addEventListener("htmx:beforeOnLoad", (event) => {
  const { requestConfig, xhr } = event.detail;
  if (!isPoll(requestConfig?.elt) || !leadsAway(xhr) || !isTyping()) return;
  event.preventDefault();
  isSignedOut = true;
  say();
});

document.addEventListener("htmx:beforeRequest", (event) => {
  const region = event.detail.elt;
  if (!isPoll(region)) return;
  if (document.hidden || isSignedOut) event.preventDefault();
  else if (isUsed(region)) {
    event.preventDefault();
    resting.add(key(region));
    say();
  }
});

// What renews itself is soon asked for again: it does not wait for an answer as long as what a person asks for.
document.addEventListener("htmx:configRequest", (event) => {
  if (isPoll(event.detail.elt)) event.detail.timeout = window.htmx.config.pollTimeout;
});

// Somebody may have begun to type while the answer was on its way.
document.addEventListener("htmx:beforeSwap", (event) => {
  const region = event.detail.requestConfig?.elt;
  if (!isPoll(region) || !event.detail.shouldSwap || !isUsed(region)) return;
  event.detail.shouldSwap = false;
  resting.add(key(region));
  say();
});

document.addEventListener("htmx:afterRequest", (event) => {
  const { requestConfig, successful, xhr } = event.detail;
  if (successful && !leadsAway(xhr) && isPoll(requestConfig?.elt) && !resting.has(key(requestConfig.elt))) wentWell(requestConfig.elt);
});

// A tab that is looked at again is right at once, not after its next tick.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const region of document.querySelectorAll("[data-poll][hx-get]")) {
    window.htmx.ajax("GET", region.getAttribute("hx-get"), { source: region });
  }
});

// What rests is looked at again without waiting for the server: leaving a field takes the note away.
setInterval(() => {
  const used = new Set([...document.querySelectorAll("[data-poll]")].filter(isUsed).map(key));
  for (const name of [...resting]) if (!used.has(name)) resting.delete(name);
  say();
}, 1000);
