// A gateway in another language: it asks before a call, records its answer, and asks before the next.
const [url, token] = process.argv.slice(2);

async function post(path, body, headers = {}) {
  const all = { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers };
  const answer = await fetch(url + path, { method: "POST", headers: all, body });
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const tenant = { "x-tokenctx-tenant": "acme" };
const question = { role: "user", content: "Why is the sky blue?" };
const request = JSON.stringify({ model: "gpt-4o", messages: [question] });
console.log(JSON.stringify(await post("/v1/estimate", request, tenant)));

const answer = { role: "assistant", content: "Dust." };
const usage = { prompt_tokens: 20, completion_tokens: 4 };
const envelope = { request: JSON.parse(request), usage, reply: answer, tenant: "acme" };
console.log(JSON.stringify(await post("/v1/record", JSON.stringify(envelope))));

const events =
  'data: {"choices":[{"index":0,"delta":{"content":"Dust."},"finish_reason":"stop"}]}\n\n' +
  `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`;
const length = { "x-tokenctx-request-bytes": String(Buffer.byteLength(request)) };
console.log(JSON.stringify(await post("/v1/record", request + events, { ...tenant, ...length })));

const messages = [question, answer, { role: "user", content: "And red at dusk?" }];
const next = JSON.stringify({ model: "gpt-4o", messages });
console.log(JSON.stringify(await post("/v1/estimate", next, tenant)));
