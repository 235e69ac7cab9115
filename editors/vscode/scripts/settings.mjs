// Writes the server's settings into package.json, from the schema that `infill-ls doctor --schema` prints.
// With --check, only says whether they agree. INFILL_LS names the command; `infill-ls` on PATH otherwise.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const own = JSON.parse(readFileSync('scripts/own_settings.json', 'utf8'));
const schema = JSON.parse(execFileSync(process.env.INFILL_LS ?? 'infill-ls', ['doctor', '--schema'], { encoding: 'utf8' }));

/** One setting of the server as VS Code wants it. Workspaces and folders may set what is not the machine's. */
function contributed(property, description, fallback, { scope, tags }) {
  const { default: _default, description: own, scope: _scope, tags: _tags, ...rest } = property;
  return {
    ...rest,
    default: fallback,
    markdownDescription: [description, own].filter(Boolean).join(' '),
    scope,
    ...(tags && { tags }),
  };
}

const properties = { ...own };
for (const [name, property] of Object.entries(schema.properties)) {
  if (property.type === 'object' && property.properties) {
    for (const [part, inner] of Object.entries(property.properties)) {
      const fallback = property.default[part];
      properties[`infill.${name}.${part}`] = contributed(inner, property.description, fallback, property);
    }
  } else {
    properties[`infill.${name}`] = contributed(property, '', property.default, property);
  }
}

const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const agree = JSON.stringify(manifest.contributes.configuration.properties) === JSON.stringify(properties);
if (process.argv.includes('--check')) {
  if (!agree) {
    console.error("package.json: the settings are not the server's; run: npm run settings");
    process.exit(1);
  }
} else if (!agree) {
  const marker = /("configuration": \{\s*"title": "infill-ls",\s*"properties": )\{[\s\S]*?\n {6}\}|("configuration": \{\s*"title": "infill-ls",\s*"properties": )\{\}/;
  const text = readFileSync('package.json', 'utf8');
  const block = JSON.stringify(properties, null, 2).replaceAll('\n', '\n      ');
  writeFileSync('package.json', text.replace(marker, (_, filled, empty) => `${filled ?? empty}${block}`));
}
