// What was typed before a sign-in goes back into its form; what has no form on the page stays to be copied.

const lost = document.querySelector("[data-unsent]");

const isOfLost = (form) => new URL(form.getAttribute("action") ?? "", location).pathname === lost.dataset.unsent;

function show(field) {
  for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

function fill(form, copies) {
  const fields = copies.map((copy) => [form.elements.namedItem(copy.dataset.unsentField), copy.value]);
  if (fields.some(([field]) => !field?.matches?.("input:not([type=hidden]), textarea, select"))) return false;
  for (const [field, text] of fields) {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    show(field);
  }
  return true;
}

function putBack() {
  const copies = [...lost.querySelectorAll("[data-unsent-field]")];
  const forms = [...document.querySelectorAll("main form[method=post]")].filter(isOfLost);
  if (!copies.length || !forms.some((form) => fill(form, copies))) return;
  for (const part of lost.querySelectorAll("[data-unsent-copies]")) part.hidden = true;
  lost.querySelector("[data-unsent-back]").hidden = false;
}

if (lost) putBack();
