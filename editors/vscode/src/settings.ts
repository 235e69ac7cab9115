/** Selects the settings for the server. Knows no VS Code: a section comes as plain objects. */
import manifest from '../package.json';

/** Settings that only the extension reads, including the old name of `executable` in the group `server`. */
const OWN = new Set(['drafts', 'preview', 'executable']);
const OWN_OF_SERVER = new Set(['path']);

const PROPERTIES: Record<string, { scope: string; tags?: string[] }> = manifest.contributes.configuration.properties;

/** Settings the server reads only at start, by their tag in the manifest. */
export const STARTUP: readonly string[] = [...new Set(Object.entries(PROPERTIES)
  .filter(([, property]) => property.tags?.includes('start'))
  .map(([name]) => name.split('.')[1] as string))];

/**
 * Settings that only start options may switch on or widen; later values can only narrow them. They count as read at
 * start, but a folder's own value is still sent; a test ties it to the server's list.
 */
export const USER_WIDENS: readonly string[] = [
  'statistics', 'context.enabled', 'prefetch', 'nextEdit.enabled', 'nextEdit.model', 'nextEdit.plainHttp',
  'allowedSecretGlobs',
];

export type Section = Readonly<Record<string, unknown>>;

/** One setting in each place that may set it, as `WorkspaceConfiguration.inspect` gives them. */
export interface Places {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

/** The server's start options: all settings but our own. An untrusted workspace has no say. */
export function startOptions(section: Section, secrets: Places | undefined, trusted: boolean): Section {
  const server = withoutKeys((section['server'] ?? {}) as Section, OWN_OF_SERVER);
  const options = { ...withoutKeys(section, OWN), server, secretGlobs: allSecrets(secrets) };
  return trusted ? options : { ...options, trustWorkspace: false };
}

/** The settings that may change while the server runs; of `USER_WIDENS`, those that differ from the window's section. */
export function changeable(section: Section, secrets: Places | undefined, window: Section): Section {
  const known = USER_WIDENS.filter((path) => isSame(section, window, path));
  const changing = known.reduce(withoutPath, withoutKeys(section, new Set([...OWN, ...STARTUP])));
  return { ...changing, secretGlobs: allSecrets(secrets) };
}

/** Whether changing from one section to the other requires a restart. */
export function needsRestart(before: Section, after: Section): boolean {
  return ['executable', 'drafts', ...STARTUP, ...USER_WIDENS].some((path) => !isSame(before, after, path));
}

/** The languages that are off after toggling `language`. */
export function toggled(off: readonly string[], language: string): string[] {
  return off.includes(language) ? off.filter((other) => other !== language) : [...off, language];
}

/** Patterns for secrets add up: VS Code would let the workspace's list replace the user's. */
function allSecrets(places: Places | undefined): string[] {
  const lists = [places?.globalValue, places?.workspaceValue, places?.workspaceFolderValue];
  const words = lists.flatMap((list): unknown[] => (Array.isArray(list) ? list : []));
  return [...new Set(words.filter((word) => typeof word === 'string'))];
}

function withoutKeys(section: Section, keys: ReadonlySet<string>): Section {
  return Object.fromEntries(Object.entries(section).filter(([key]) => !keys.has(key)));
}

/** Whether both have the same value at `path`, which may lead into a group. */
function isSame(one: Section, other: Section, path: string): boolean {
  return JSON.stringify(valueAt(one, path)) === JSON.stringify(valueAt(other, path));
}

function valueAt(section: Section, path: string): unknown {
  return path.split('.').reduce((value: unknown, key) => (isGroup(value) ? value[key] : undefined), section);
}

function withoutPath(section: Section, path: string): Section {
  const [key = '', inner] = path.split('.');
  const group = section[key];
  if (inner === undefined || !isGroup(group)) {
    return withoutKeys(section, new Set([key]));
  }
  return { ...section, [key]: withoutKeys(group, new Set([inner])) };
}

function isGroup(value: unknown): value is Section {
  return typeof value === 'object' && value !== null;
}
