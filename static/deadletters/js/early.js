// Keys that are pressed while the page is still being read are kept in their order, and done once it can act on them.
"use strict";
(() => {
  const KEYS = "/jkxarnh?"; // as in keys.js: what a first key may be
  const MOST = 200;
  let kept = [];

  function keep(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.target !== document.body) return;
    if (key.length > 1 && !["Enter", "Escape", "Tab"].includes(key)) return;
    if (kept.length === 0 && !KEYS.includes(key)) return;
    event.preventDefault();
    if (kept.length < MOST) kept.push(key);
  }

  // Who goes elsewhere meanwhile does not mean them any more.
  function drop() {
    kept = [];
  }

  function handOver() {
    document.removeEventListener("keydown", keep);
    document.removeEventListener("focusin", drop);
    document.removeEventListener("pointerdown", drop);
    if (kept.length) document.dispatchEvent(new CustomEvent("keys-kept", { detail: kept }));
  }

  document.addEventListener("keydown", keep);
  document.addEventListener("focusin", drop);
  document.addEventListener("pointerdown", drop);
  // All modules have run by then; after htmx, which begins with the same event.
  document.addEventListener("DOMContentLoaded", () => setTimeout(handOver));
})();
