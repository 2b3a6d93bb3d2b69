// What a button says of a field follows the field; a form that begins something is sent once.

document.addEventListener("input", (event) => {
  for (const place of document.querySelectorAll(`[data-mirror="${CSS.escape(event.target.name)}"]`)) {
    const typed = event.target.value.trim() || "0";
    place.textContent = Number(typed) > Number(place.dataset.most ?? Infinity) ? place.dataset.most : typed;
  }
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});

addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent;
});
