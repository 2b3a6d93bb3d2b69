// What was typed survives a sign-in in between and an answer that never came.

function restore(within) {
  for (const area of within.querySelectorAll("[data-draft]")) {
    const kept = sessionStorage.getItem(area.dataset.draft);
    if (kept && !area.value) area.value = kept;
  }
}

document.addEventListener("input", (event) => {
  const key = event.target.dataset?.draft;
  if (key) sessionStorage.setItem(key, event.target.value);
});

document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-sign-out]")) sessionStorage.clear();
});

// Before the swap, so that the fresh field is not filled with what has just been kept.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { isError, requestConfig, xhr } = event.detail;
  if (isError || xhr.status >= 300 || !requestConfig.elt.matches("form[method=post]")) return;
  for (const area of requestConfig.elt.querySelectorAll("[data-draft]")) sessionStorage.removeItem(area.dataset.draft);
});

document.addEventListener("htmx:afterSwap", () => restore(document));
restore(document);
