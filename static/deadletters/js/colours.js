// The switch between the system's colours, light and dark; theme.js applies the choice before the page is painted.

const THEMES = ["system", "light", "dark"];
const root = document.documentElement;

function say(button) {
  const name = button.dataset[root.dataset.theme];
  button.setAttribute("aria-label", name);
  button.title = name;
}

function turn(button) {
  root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  say(button);
  try {
    localStorage.setItem("deadletters-theme", root.dataset.theme);
  } catch {
    // Kept for this page only.
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-switch]");
  if (button) turn(button);
});
document.querySelectorAll("[data-theme-switch]").forEach(say);
