// What was revealed does not stay on a screen that somebody left: it is hidden again after its time.

const timed = new WeakSet();

function hideInTime() {
  for (const element of document.querySelectorAll("[data-hide-after]")) {
    if (timed.has(element)) continue;
    timed.add(element);
    setTimeout(() => element.replaceChildren(), Number(element.dataset.hideAfter) * 1000);
  }
}

document.addEventListener("htmx:afterSwap", hideInTime);
hideInTime();
