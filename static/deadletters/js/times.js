// Times in the viewer's zone, with UTC behind them; how long ago goes on while the page is open.

import { words } from "./words.js";

const AGAIN_MS = 15000;
const UNITS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
// The server's clock decides; a laptop that is an hour off would turn every age into nonsense.
const ahead = Date.parse(words.now) - Date.now();

function ago(at) {
  const seconds = Math.floor((Date.now() + ahead - at) / 1000);
  if (seconds < -60) return words.coming.replace("%s", span(-seconds));
  return seconds < 1 ? words.justNow : words.ago.replace("%s", span(seconds));
}

function span(seconds) {
  const [, size, unit] = UNITS.find(([below]) => seconds < below);
  return `${Math.floor(seconds / size).toLocaleString("en")} ${unit}`;
}

function dress(time) {
  if (time.dataset.utc) return;
  const local = clock.format(new Date(time.dateTime));
  time.dataset.utc = time.title;
  time.title = zone === "UTC" ? time.title : `${local} (${zone})\n${time.dataset.utc}`;
  if (time.classList.contains("clock")) time.textContent = local;
  // In a table of fifty rows each time would be a stop of the Tab key; there the row's page has it.
  if (!time.closest("table, a, button, summary, label")) time.tabIndex = 0;
}

function localTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) dress(time);
}

function goOn() {
  for (const time of document.querySelectorAll("time.ago")) {
    const said = ago(Date.parse(time.dateTime));
    if (time.textContent !== said) time.textContent = said;
  }
}

setInterval(goOn, AGAIN_MS);
document.addEventListener("visibilitychange", () => document.hidden || goOn());

// A time that is typed in UTC says what it is where the viewer is.
document.addEventListener("input", (event) => {
  if (event.target.type !== "datetime-local" || zone === "UTC") return;
  const hint = event.target.parentElement.querySelector(".here") ?? document.createElement("span");
  hint.className = "here help quiet";
  const at = new Date(`${event.target.value}Z`);
  hint.textContent = Number.isNaN(at.valueOf()) ? "" : `${clock.format(at)} (${zone})`;
  event.target.after(hint);
});

document.addEventListener("htmx:afterSwap", localTimes);
document.addEventListener("htmx:oobAfterSwap", localTimes);
localTimes();
