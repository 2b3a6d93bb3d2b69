// What was typed or picked survives a sign-in in between and an answer that never came. It is kept in this tab, for its
// person only, until it is in its form again or somebody signs out.

import { isEdited } from "./polls.js";
import { choose, chosen } from "./picks.js";
import { toast } from "./toasts.js";
import { words } from "./words.js";

const PREFIX = "deadletters:";
const SIGNED_OUT = `${PREFIX}signed-out`; // when, for all tabs
const NOTE = `${PREFIX}note:`;
const PAGE = `${PREFIX}page:`;
const KEPT = "input:not([type=hidden], [type=password], [type=submit], [readonly]), textarea:not([readonly]), select";
const LOST = [403, 413]; // answers to a form that do not hold it

const person = document.body.dataset.person ?? "";
const opened = Date.now();
let isLost = false; // the server has refused a form of this page without an answer to it

// A browser may refuse to store, or be full: then nothing is kept, and the page works on.
function stored(act) {
  try {
    return act();
  } catch {
    return null;
  }
}

const read = (key) => stored(() => JSON.parse(sessionStorage.getItem(key)));
const keys = () => stored(() => Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX))) ?? [];
const signedOutAt = () => Number(stored(() => localStorage.getItem(SIGNED_OUT)) ?? 0);

function write(key, kept) {
  if (person && signedOutAt() < opened) stored(() => sessionStorage.setItem(key, JSON.stringify({ ...kept, person, at: Date.now() })));
}

function forget(isMeant = () => true) {
  for (const key of keys()) if (isMeant(read(key), key)) sessionStorage.removeItem(key);
}

function signOut() {
  stored(() => localStorage.setItem(SIGNED_OUT, Date.now()));
  forget();
}

// --- fields

const pathOf = (form) => new URL(form.getAttribute("action") ?? "", location).pathname;
const forms = () => [...document.querySelectorAll("main form[method=post]:not([data-sign-in], .unsent *)")];
const withPath = (path) => forms().filter((form) => pathOf(form) === path);
const named = (form, name) => [...form.elements].filter((field) => field.name === name && field.matches(KEPT));
const isTicked = (field) => field.type === "checkbox" || field.type === "radio";
// Payloads stay out of the browser's storage.
const isKept = (field) => field.name && field.matches(KEPT) && !field.matches(".pick, [data-draft], [data-unkept], .bulk-scope *");

function describe(form, field) {
  const path = pathOf(form);
  const value = isTicked(field) ? field.checked : field.value;
  return { path, form: withPath(path).indexOf(form), name: field.name, nth: named(form, field.name).indexOf(field), value };
}

const find = ({ path, form, name, nth }) => {
  const found = withPath(path)[form];
  return found && named(found, name)[nth];
};

function show(field) {
  for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

// Returns whether it is in its field; what has been typed into that since stays.
function putBack(kept) {
  const field = find(kept);
  if (!field) return false;
  if (isEdited(field)) return true;
  if (isTicked(field)) field.checked = kept.value;
  else field.value = kept.value;
  if (isEdited(field)) {
    show(field);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  return true;
}

// --- a page

const here = PAGE + location.pathname;

function keepPage() {
  const fields = forms().flatMap((form) => [...form.elements].filter((field) => isKept(field) && isEdited(field)).map((field) => describe(form, field)));
  const picks = chosen();
  if (fields.length || picks.ids.length) write(here, { fields, picks, isLost });
}

// A page that was left with its session at hand was left on purpose, unless its form came back without an answer.
function promote() {
  for (const key of keys()) {
    const kept = read(key);
    if (key.startsWith(PAGE) && kept) stored(() => sessionStorage.setItem(key, JSON.stringify({ ...kept, isLost: true })));
  }
}

function restorePage() {
  const kept = read(here);
  if (!kept?.isLost) return;
  const before = forms().flatMap((form) => [...form.elements]).filter(isEdited).length;
  const left = kept.fields.filter((field) => !putBack(field));
  if (kept.picks?.ids.length) choose(kept.picks);
  stored(() => sessionStorage.removeItem(here));
  if (left.length) write(here, { ...kept, fields: left, picks: null });
  const after = forms().flatMap((form) => [...form.elements]).filter(isEdited).length;
  if (after > before && !document.querySelector("[data-unsent]")) toast(words.typedAgain, { stays: true });
}

function arrive() {
  const [navigation] = performance.getEntriesByType("navigation");
  const status = navigation?.responseStatus ?? 200;
  const signIn = document.querySelector("[data-sign-in]");
  if (signIn && !signIn.dataset.signIn) signOut();
  if (!person) return promote();
  forget((kept) => kept?.person !== person || kept.at < signedOutAt());
  if (document.querySelector("[data-unsent]") || LOST.includes(status) || status >= 500) promote();
  if (navigation?.type === "back_forward" && read(here)) promote();
  restorePage();
  forget((kept, key) => key.startsWith(PAGE) && !kept.isLost);
}

// --- notes: kept from letter to letter until they are written

const noteKey = (area) => NOTE + area.dataset.draft;

function restoreNotes() {
  for (const area of document.querySelectorAll("[data-draft]")) if (!area.value) area.value = read(noteKey(area))?.text ?? "";
}

document.addEventListener("input", (event) => {
  if (event.target.dataset?.draft) write(noteKey(event.target), { text: event.target.value });
});

// Before the swap, so that the fresh field is not filled with what has just been kept.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { isError, requestConfig, xhr } = event.detail;
  if (isError || xhr.status >= 300 || !requestConfig.elt.matches("form[method=post]")) return;
  for (const area of requestConfig.elt.querySelectorAll("[data-draft]")) stored(() => sessionStorage.removeItem(noteKey(area)));
});

document.addEventListener("htmx:beforeOnLoad", ({ detail }) => {
  if (detail.xhr?.getResponseHeader("HX-Redirect")) isLost = true;
});
document.addEventListener("htmx:responseError", ({ detail }) => {
  if (LOST.includes(detail.xhr.status)) isLost = true;
});
document.addEventListener("htmx:afterSwap", () => {
  restoreNotes();
  restorePage();
});
document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-sign-out]")) signOut();
});
addEventListener("storage", (event) => {
  if (event.key === SIGNED_OUT) forget();
});
addEventListener("pagehide", keepPage);

arrive();
restoreNotes();
