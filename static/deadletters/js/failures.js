// Answers that are no fragment: each is told once, in words, where it was asked for; what was typed stays.

import { isPoll, wentWrong } from "./polls.js";
import { toast } from "./toasts.js";
import { words } from "./words.js";

const BY_STATUS = { 400: "refused", 403: "forbidden", 404: "gone", 409: "changed", 413: "tooLarge", 422: "refused", 502: "away", 503: "away", 504: "slow" };
const SWAPPED = [400, 409, 422]; // as the page tells htmx
const SHORT = 300;

// A form says it itself, below what was typed; anything else in the corner.
function tell(element, text) {
  if (!element?.isConnected || !element.matches("form[method=post]")) return toast(text, { stays: true });
  forget(element);
  const said = document.createElement("p");
  said.className = "field-error failure wide";
  said.setAttribute("role", "alert");
  element.append(said);
  said.textContent = text;
}

function forget(element) {
  element.querySelectorAll?.(":scope > .failure").forEach((said) => said.remove());
}

function failed(event, text) {
  const element = event.detail.requestConfig?.elt ?? event.detail.elt;
  if (isPoll(element)) wentWrong(element);
  else tell(element, text);
}

const isPage = (text) => /^\s*(<!doctype|<html)/i.test(text);
const type = (xhr) => xhr.getResponseHeader("Content-Type") ?? "";

// The server's own words, where it answered with a line of text and not with a page.
function wordsOf(xhr) {
  const text = xhr.responseText.trim();
  return type(xhr).startsWith("text/plain") && text && text.length <= SHORT ? text : "";
}

function textFor(xhr) {
  return wordsOf(xhr) || words[BY_STATUS[xhr.status]] || words.failed;
}

document.addEventListener("htmx:beforeRequest", (event) => forget(event.detail.elt));

// A page, or a line of text, is never put where a part of a page belongs.
const fits = (xhr) => xhr.responseText === "" || (type(xhr).startsWith("text/html") && !isPage(xhr.responseText));

document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.shouldSwap || fits(event.detail.xhr)) return;
  event.detail.shouldSwap = false;
  event.detail.isError = true;
});
document.addEventListener("htmx:sendError", (event) => failed(event, words.offline));
document.addEventListener("htmx:timeout", (event) => failed(event, words.slow));
document.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  if (SWAPPED.includes(xhr.status) && fits(xhr)) return;
  failed(event, xhr.status < 400 ? words.unexpected : textFor(xhr));
});
