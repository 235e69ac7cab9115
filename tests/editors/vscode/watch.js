// Runs in the page of VS Code: notes, frame by frame, each different text that decorations show beside the document's,
// each ghost text, with its lines below the cursor's ('' where there is none) and each look of our status item. Returns what is drawn now.
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
    const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
    const ghost = () =>
      [texts('.view-lines [class*="ghost-text-decoration"]').join(''), ...texts('.suggest-preview-text .view-line')]
        .join('\n')
        .replaceAll('\u00a0', ' ');
    const noteAny = (list, seen) => seen !== list.at(-1) && list.push(seen);
    const note = (list, seen) => seen && seen !== list.at(-1) && list.push(seen);
    const look = () => {
      note(window.seen.drafts, drawn());
      noteAny(window.seen.ghosts, ghost());
      note(window.seen.statuses, item()?.getAttribute('aria-label'));
      requestAnimationFrame(look);
    };
    window.seen = { drafts: [], ghosts: [], statuses: [] };
    window.ghost = ghost;
    look();
  }
  return drawn();
};
