// A box that scrolls and holds nothing that takes the focus takes it itself, so that the keyboard can scroll it.

const BOXES = "main dd, main pre, .trace, .raw, .tree, .diff, .scrolls";
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

function look(box) {
  const scrolls = box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1;
  const isBox = scrolls && /auto|scroll/.test(getComputedStyle(box).overflow) && !box.querySelector(FOCUSABLE);
  if (isBox && !box.hasAttribute("tabindex")) {
    box.tabIndex = 0;
    box.dataset.scroller = "yes";
  } else if (!isBox && box.dataset.scroller) {
    box.removeAttribute("tabindex");
    delete box.dataset.scroller;
  }
}

const lookAtAll = () => document.querySelectorAll(BOXES).forEach(look);

document.addEventListener("htmx:afterSettle", lookAtAll);
document.addEventListener("toggle", lookAtAll, true);
addEventListener("resize", lookAtAll);
lookAtAll();
