// Before anything is painted: the colours that were chosen, or those that the system prefers.
// localStorage may be forbidden: then the choice lasts as long as the page.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("spoolrack.theme"); } catch { /* as the system prefers */ }
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    root.dataset.theme = chosen || (system.matches ? "dark" : "light");
    dispatchEvent(new Event("spoolrack-theme"));
  }
  system.addEventListener("change", paint);
  globalThis.spoolrackTheme = {
    get current() { return root.dataset.theme; },
    turn() {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("spoolrack.theme", chosen); } catch { /* for this page only */ }
      paint();
    },
  };
  paint();
})();
