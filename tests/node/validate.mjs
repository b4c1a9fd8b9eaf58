// Reads one JSON array of messages a line; writes one line for each that modelMessageSchema refuses:
// the number of the line, the index of the message, and the paths of the faults.
import { createInterface } from 'node:readline';
import { modelMessageSchema } from 'ai';

const paths = issue => [
  issue.path.join('.'),
  ...(issue.errors ?? []).flat().map(inner => `${inner.path.join('.')}:${inner.code}`),
];

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  for (const [index, message] of JSON.parse(line).entries()) {
    const result = modelMessageSchema.safeParse(message);
    if (!result.success) {
      console.log(`${number} ${index} ${result.error.issues.flatMap(paths).join(' ')}`);
    }
  }
  number += 1;
}
console.log(`${number} lines`);
