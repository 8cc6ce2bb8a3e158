// Decisions go to the server that gave the page, at once; what could not be sent stays here until it can.

const unsent = new Set();
const LONGEST_WAIT_MS = 15000;
let isSending = false;
let waitMs = 1000;
let retry;

const hasUnsent = () => unsent.size > 0 || isSending;

/** A refusal, in the server's words; `isFinal` where asking again would not help. */
class Refused extends Error {
  constructor(text, isFinal) {
    super(text);
    this.isFinal = isFinal;
  }
}

async function post(name, body) {
  let response;
  try {
    response = await fetch(new URL(name, data.server.address), {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Perfmod-Token": data.server.token },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused("Nobody answers: is `perfmod review --serve` still running?", false);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer.error ?? `The server answered ${response.status}.`, response.status < 500);
  return answer;
}

function send(changed) {
  if (!data.server) return;
  for (const item of changed) unsent.add(item);
  if (!isSending) flush();
}

async function flush() {
  clearTimeout(retry);
  if (isSending) return;
  isSending = true;
  try {
    while (unsent.size) {
      const batch = [...unsent];
      const sent = documentOf(batch);
      for (const item of batch) unsent.delete(item);
      try {
        await post("decisions", sent);
      } catch (error) {
        for (const item of batch) unsent.add(item);
        throw error;
      }
    }
    waitMs = 1000;
    showLost(null);
  } catch (error) {
    showLost(error);
    if (!error.isFinal) {
      retry = setTimeout(flush, waitMs);
      waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
    }
  } finally {
    isSending = false;
  }
}

function showLost(error) {
  const lost = byId("lost");
  lost.hidden = !error;
  if (!error) return lost.replaceChildren();
  const kept = `${counted(unsent.size, "decision")} not saved yet. `;
  lost.replaceChildren(make("strong", {}, error.message), ` ${kept}`,
    make("button", { type: "button", click: () => { waitMs = 1000; flush(); } }, "Try again"));
}

async function applyAccepted() {
  const accepted = items.filter((item) => item.verdict === "accepted");
  if (!accepted.length) return say("Nothing is accepted yet.");
  const paths = [...new Set(accepted.flatMap((item) => [item.shownPath, ...item.elsewhere]))].sort();
  const text = `${counted(accepted.length, "finding")} in ${counted(paths.length, "file")}:`;
  if (!(await ask("Apply what is accepted?", text, "Apply", paths))) return;
  byId("apply").disabled = true;
  try {
    await flush();
    if (unsent.size) return say("Not applied: decisions could not be saved.");
    showApplied(await post("apply", {}));
  } catch (error) {
    await ask("Not applied", error.message, null);
  } finally {
    byId("apply").disabled = false;
  }
}

function showApplied({ files = [], findings = 0, left = [] }) {
  const text = `${counted(findings, "finding")} applied. \`perfmod revert\` takes them back; the page shows the code as it was.`;
  return ask(`${counted(files.length, "file")} changed`, text, null,
    [...files, ...left.map(({ path, rule, reason }) => `left as it is: ${path} ${rule}: ${reason}`)]);
}
