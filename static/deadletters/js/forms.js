// What a button says of a field follows the field; a form that begins something is sent once.

function mirror(place) {
  const field = document.querySelector(`[name="${CSS.escape(place.dataset.mirror)}"]`);
  if (!field) return;
  const typed = field.value.trim() || "0";
  place.textContent = Number(typed) > Number(place.dataset.most ?? Infinity) ? place.dataset.most : typed;
}

function choose(place) {
  const box = document.querySelector(`[name="${CSS.escape(place.dataset.when)}"]`);
  if (box) place.hidden = box.checked !== (place.dataset.is === "on");
}

function follow() {
  document.querySelectorAll("[data-mirror]").forEach(mirror);
  document.querySelectorAll("[data-when]").forEach(choose);
}

document.addEventListener("input", follow);
document.addEventListener("change", follow);
document.addEventListener("htmx:oobAfterSwap", follow); // the button is renewed once it is known what can be sent

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});

addEventListener("pageshow", () => {
  follow();
  for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent;
});
