// What script says, in the language of the page: the page carries the words.

export const words = document.getElementById("words").dataset;
