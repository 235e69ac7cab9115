/** The snooze: for some minutes nothing appears by itself, neither ghost text nor a next edit, and none is asked for. */
import * as vscode from 'vscode';

const CHOICES = [5, 10, 30, 60];
const DEFAULT = 10;
const MINUTE_MS = 60_000;

export class Snooze implements vscode.Disposable {
  private until = 0;
  private timer: NodeJS.Timeout | undefined;

  /** `onChange` is called when a snooze begins, each minute, and when it ends. */
  constructor(private readonly onChange: () => void) {}

  /** Minutes until the snooze ends, rounded up; 0 without one. */
  get minutesLeft(): number {
    return Math.max(0, Math.ceil((this.until - Date.now()) / MINUTE_MS));
  }

  /** Snoozes for `minutes`, or for as long as the user picks. */
  async begin(minutes?: unknown): Promise<void> {
    const chosen = typeof minutes === 'number' && minutes > 0 ? minutes : await pick();
    if (chosen !== undefined) {
      this.set(Date.now() + chosen * MINUTE_MS);
    }
  }

  end(): void {
    this.set(0);
  }

  dispose(): void {
    clearTimeout(this.timer);
  }

  private set(until: number): void {
    this.until = until;
    this.tick();
  }

  private tick(): void {
    clearTimeout(this.timer);
    const left = this.until - Date.now();
    if (left > 0) {
      this.timer = setTimeout(() => this.tick(), left % MINUTE_MS || MINUTE_MS);
    }
    this.onChange();
  }
}

function pick(): Promise<number | undefined> {
  const list = vscode.window.createQuickPick<vscode.QuickPickItem & { minutes: number }>();
  list.title = 'Snooze ghost text and next edits';
  list.items = CHOICES.map((minutes) => ({ label: `${minutes} minutes`, minutes }));
  list.activeItems = list.items.filter(({ minutes }) => minutes === DEFAULT);
  return new Promise((resolve) => {
    list.onDidAccept(() => {
      resolve(list.activeItems[0]?.minutes);
      list.hide();
    });
    list.onDidHide(() => {
      resolve(undefined);
      list.dispose();
    });
    list.show();
  });
}
