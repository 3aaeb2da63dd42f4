// The slider of the memory as of a moment: it writes the moment that it stands at, and asks for it.
"use strict";
(() => {
  const slider = document.getElementById("slider"), at = document.getElementById("at");
  const write = () => { at.value = new Date(slider.value * 1000).toISOString().replace(".000Z", "Z"); };
  slider.addEventListener("input", write);
  slider.addEventListener("change", () => { write(); slider.form.requestSubmit(); });
})();
