// Runs before the page is painted, so that a chosen theme does not flash.
"use strict";
document.documentElement.classList.add("script");
try {
  document.documentElement.dataset.theme = localStorage.getItem("deadletters-theme") || "system";
} catch {
  // Storage may be refused; the system's colours are right then.
}
