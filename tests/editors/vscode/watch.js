// Runs in the page of VS Code: notes, frame by frame, each different text that decorations show beside the document's,
// and each look of our status item. Returns what is drawn now.
() => {
  const drawn = () =>
    [...document.querySelectorAll('.view-lines span[class*="ced-"]')]
      .map((element) => getComputedStyle(element, '::after').content)
      .filter((content) => content.startsWith('"'))
      .map((content) => JSON.parse(content))
      .join('')
      .replaceAll('\u00a0', ' ');
  if (window.seen === undefined) {
    const item = () => document.querySelector('[id="infill-ls.infill.infill.status"]');
    const note = (list, seen) => seen && seen !== list.at(-1) && list.push(seen);
    const look = () => {
      note(window.seen.drafts, drawn());
      note(window.seen.statuses, item()?.getAttribute('aria-label'));
      requestAnimationFrame(look);
    };
    window.seen = { drafts: [], statuses: [] };
    look();
  }
  return drawn();
};
