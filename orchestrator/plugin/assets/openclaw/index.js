// Synapse's plugin for OpenClaw: tells `bin/hook` of a session's events in our own form, and gives the model
// what it answers, and offers the memory's tools: `bin/mcp` has them, one process for each folder that agents work
// in. Whatever goes wrong here is nothing to the gateway: no handler throws, none waits for long.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const START_WITHIN = 10_000; // milliseconds; the gateway waits 15 s for a handler
const WITHIN = 5_000;
const LONGEST = 1 << 20; // characters of an answer, and of a result that is told
const KEPT = 20_000; // characters of earlier news that stay in the system prompt
const SESSIONS = 500; // sessions that are remembered
const LOOK_EVERY = 1_000; // milliseconds between looks for what is to wake a session
const CALL_WITHIN = 60_000; // milliseconds for a call of a tool
const IDLE = 600_000; // milliseconds after its last call that a folder's tools go on running

let settings = { hook: "", mcp: "", folder: HERE, root: "" };
let tools = [];
try {
  settings = JSON.parse(fs.readFileSync(path.join(HERE, "settings.json"), "utf8"));
  tools = JSON.parse(fs.readFileSync(path.join(HERE, "tools.json"), "utf8"));
} catch {
  // nothing is told, nothing is given
}

// The gateway loads this file more than once and takes each handler from whichever it likes: what is known of
// sessions is one for all of the process. `sessions` are by the session's key; `parents` have for a sub-agent's
// key that of who asked for it, and its label; `pending` what is told beside a call's result, by the call's id;
// `servers` the processes that run the memory's tools, by the folder whose memory it is.
const shared = (globalThis[Symbol.for("synapse.openclaw")] ??= {
  sessions: new Map(),
  parents: new Map(),
  pending: new Map(),
  servers: new Map(),
});
const { sessions, parents, pending, servers } = shared;

/** Ask the hook about one event; an empty object where it has nothing to say, in time or at all. */
function ask(event, within = WITHIN) {
  return new Promise((resolve) => {
    let text = "";
    let child;
    const done = (answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    const timer = setTimeout(() => {
      child?.kill("SIGKILL");
      done({});
    }, within);
    try {
      const words = settings.root ? ["--root", settings.root] : [];
      child = spawn(settings.hook, words, { stdio: ["pipe", "pipe", "ignore"] });
      child.on("error", () => done({}));
      child.stdin.on("error", () => {});
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (part) => (text += text.length < LONGEST ? part : ""));
      child.on("close", () => {
        try {
          done(text ? JSON.parse(text) : {});
        } catch {
          done({});
        }
      });
      child.stdin.end(JSON.stringify(event));
    } catch {
      done({});
    }
  });
}

/** What is known of a session. `root` is the main session above it, `agent` its own key in a sub-agent's. */
function known(key, agentId, cwd) {
  let session = sessions.get(key);
  if (!session) {
    let root = key;
    while (parents.has(root)) root = parents.get(root).parent;
    if (root.includes(":subagent:")) root = `agent:${agentId || "main"}:main`; // begun before this process
    const name = createHash("sha256").update(key).digest("hex").slice(0, 16);
    session = { key, root, agent: root === key ? null : key, texts: [], view: "", replies: new Set() };
    session.usage = path.join(settings.folder, "usage", `${name}.jsonl`);
    sessions.set(key, session);
    if (sessions.size > SESSIONS) sessions.delete(sessions.keys().next().value);
  }
  session.cwd = cwd || session.cwd || process.cwd();
  return session;
}

/** An event in our own form. */
function event(session, name, fields) {
  const spawned = parents.get(session.key);
  return {
    event: name,
    session: session.root,
    cwd: session.cwd,
    agent: session.agent,
    type: session.agent ? spawned?.label || "" : undefined,
    transcript: session.usage,
    ...fields,
  };
}

/** Keep what the replies of a turn used, each once: OpenClaw has its sessions in a database. */
function note(session, messages) {
  const lines = [];
  for (const message of messages || []) {
    const id = message?.responseId || `${message?.timestamp}`;
    if (message?.role !== "assistant" || !message.usage || session.replies.has(id)) continue;
    session.replies.add(id);
    if ((message.timestamp || 0) >= (session.since || 0))
      lines.push(JSON.stringify({ id, model: message.model, usage: message.usage }) + "\n");
  }
  if (lines.length === 0) return;
  fs.mkdirSync(path.dirname(session.usage), { recursive: true, mode: 0o700 });
  fs.appendFileSync(session.usage, lines.join(""), { mode: 0o600 });
}

function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (typeof part?.text === "string" ? part.text : "")).join("\n");
}

/** What a sub-agent was asked: what stands below the last heading of a task. OpenClaw's own words before it name
    the heading too, and what it inherited may have tasks of others. */
function asked(prompt) {
  const task = (prompt || "").split(/^\[Subagent Task\]:?\s*/m).at(-1);
  return task.replace(/\s*Begin\. Execute the assigned task[^\n]*\s*$/, "").trim();
}

async function begin(session, e, c) {
  const source = session.id ? "clear" : e.messages?.length ? "compact" : "startup";
  Object.assign(session, { id: c.sessionId, texts: [], view: "", since: Date.now(), ended: false });
  fs.rmSync(session.usage, { force: true });
  const fields = session.agent ? { prompt: asked(e.prompt) } : { source };
  const reply = await ask(event(session, session.agent ? "agent-start" : "start", fields), START_WITHIN);
  session.view = reply.context || "";
}

/** Before each turn: the view, which no history keeps, and what is new. */
async function beforeTurn(e, c) {
  if (!c?.sessionKey) return undefined;
  const session = known(c.sessionKey, c.agentId, c.workspaceDir);
  if (session.turn && session.turn === c.runId) return session.given; // the same turn, asked again
  const first = session.id !== c.sessionId;
  if (first) await begin(session, e, c);
  let news = "";
  if (!session.agent || !first) {
    const human = c.trigger === "user" && !c.inputProvenance;
    const prompt = human ? (e.currentUserMessage ?? e.prompt ?? "") : "";
    news = (await ask(event(session, "prompt", { prompt }))).context || "";
  }
  const stays = [session.view, ...session.texts].filter(Boolean).join("\n");
  session.turn = c.runId;
  session.given = { ...(stays && { appendSystemContext: stays }), ...(news && { prependContext: news }) };
  if (news) session.texts.push(news);
  while (session.texts.join("").length > KEPT) session.texts.shift();
  return session.given;
}

async function beforeCall(e, c) {
  if (!c?.sessionKey) return undefined;
  const session = known(c.sessionKey, c.agentId);
  const fields = { tool: e.toolName, arguments: e.params || {}, call: e.toolCallId };
  const reply = await ask(event(session, "before", fields));
  if (reply.deny) return { block: true, blockReason: reply.deny };
  if (reply.context && e.toolCallId) pending.set(e.toolCallId, reply.context);
  if (pending.size > SESSIONS) pending.delete(pending.keys().next().value);
  return undefined;
}

async function afterCall(e, c) {
  if (!c?.sessionKey) return undefined;
  const session = known(c.sessionKey, c.agentId, e.cwd);
  const beside = pending.get(e.toolCallId);
  pending.delete(e.toolCallId);
  const result = textOf(e.result?.content).slice(0, LONGEST);
  const fields = { tool: e.toolName, arguments: e.args || {}, call: e.toolCallId, result };
  const reply = await ask(event(session, "after", fields));
  const text = [beside, reply.context].filter(Boolean).join("\n");
  if (!text || !Array.isArray(e.result?.content)) return undefined;
  return { result: { ...e.result, content: [...e.result.content, { type: "text", text }] } };
}

async function beforeEnd(e, c) {
  if (!c?.sessionKey) return undefined;
  const session = known(c.sessionKey, c.agentId, c.workspaceDir);
  note(session, e.messages);
  const fields = { message: e.lastAssistantMessage || "", going_on: session.again === c.runId };
  const reply = await ask(event(session, session.agent ? "agent-stop" : "stop", fields));
  session.ended = !reply.again;
  if (!reply.again) return undefined;
  session.again = c.runId;
  return { action: "revise", reason: reply.again };
}

async function ended(e) {
  const session = sessions.get(e.targetSessionKey);
  if (session?.agent && !session.ended) {
    const failed = ["error", "timeout"].includes(e.outcome);
    const message = failed ? `Blocked: the sub-agent ended with ${e.error || e.outcome}` : "";
    await ask(event(session, "agent-stop", { message, going_on: true }));
  }
  sessions.delete(e.targetSessionKey);
  parents.delete(e.targetSessionKey);
}

async function sessionEnded(e, c) {
  const session = sessions.get(e.sessionKey || c?.sessionKey);
  if (!session || session.agent || e.reason === "compaction") return;
  await ask(event(session, "end", {}), 1_500); // all sessions share 2 s when the gateway stops
}

/** The process that runs the memory's tools for a folder, begun at its first call. */
function serverOf(folder) {
  if (servers.has(folder)) return servers.get(folder);
  const child = spawn(settings.mcp, [], { cwd: folder, stdio: ["pipe", "pipe", "ignore"] });
  const calls = new Map();
  const end = () => {
    clearTimeout(server.timer);
    if (servers.get(folder) === server) servers.delete(folder);
    for (const call of calls.values()) call.reject(new Error("the memory's tools have stopped: call again"));
    calls.clear();
    child.stdin?.end();
  };
  const send = (message) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const request = (method, params) =>
    new Promise((resolve, reject) => {
      const id = (server.last += 1);
      const timer = setTimeout(() => calls.get(id)?.reject(new Error("the memory did not answer")), CALL_WITHIN);
      const done = (settle) => (value) => {
        clearTimeout(timer);
        calls.delete(id);
        settle(value);
      };
      calls.set(id, { resolve: done(resolve), reject: done(reject) });
      send({ id, method, params });
    });
  const server = { last: 0, end, timer: undefined };
  servers.set(folder, server);
  child.on("error", end);
  child.on("close", end);
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    try {
      const { id, result, error } = JSON.parse(line);
      if (error) calls.get(id)?.reject(new Error(error.message));
      else calls.get(id)?.resolve(result);
    } catch {
      // no answer of a server of ours
    }
  });
  for (const part of [child, child.stdin, child.stdout]) part.unref?.(); // a command of one turn ends without it
  const client = { name: "openclaw", version: "1" };
  const begin = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: client };
  const begun = request("initialize", begin).then(() => send({ method: "notifications/initialized" }));
  server.call = async (params) => {
    clearTimeout(server.timer);
    server.timer = setTimeout(end, IDLE);
    server.timer.unref?.();
    await begun;
    return request("tools/call", params);
  };
  return server;
}

/** The memory's tools for an agent: those of the memory of the folder that it works in. */
function toolsOf(c) {
  return tools.map(({ name, description, inputSchema }) => ({
    name: `synapse__${name}`,
    label: name,
    description,
    parameters: inputSchema,
    async execute(call, args) {
      const _meta = { threadId: c.sessionKey, callId: call };
      const folder = c.workspaceDir || process.cwd();
      const result = await serverOf(folder).call({ name, arguments: args ?? {}, _meta });
      if (result.isError) throw new Error(textOf(result.content));
      return { content: result.content, details: {} };
    },
  }));
}

/** Wake the sessions that files ask for. A file stays until a gateway takes it. */
function wake(api) {
  const folder = path.join(settings.folder, "wakes");
  let names = [];
  try {
    names = fs.readdirSync(folder).filter((name) => name.endsWith(".json"));
  } catch {
    return; // nobody is to be woken
  }
  for (const name of names.sort()) {
    try {
      const file = path.join(folder, name);
      const { session, text } = JSON.parse(fs.readFileSync(file, "utf8"));
      api.runtime.system.enqueueSystemEvent(text, { sessionKey: session });
      api.runtime.system.requestHeartbeat({
        source: "hook",
        intent: "immediate",
        reason: "synapse",
        sessionKey: session,
      });
      fs.rmSync(file, { force: true });
    } catch (error) {
      api.logger?.warn?.(`synapse: ${name}: ${error?.message || error}`);
    }
  }
}

export default {
  id: "synapse",
  name: "Synapse",
  register(api) {
    const safe = (handler) => async (...given) => {
      try {
        return await handler(...given);
      } catch (error) {
        api.logger?.warn?.(`synapse: ${error?.message || error}`);
        return undefined;
      }
    };
    api.on("before_prompt_build", safe(beforeTurn));
    api.on("before_tool_call", safe(beforeCall));
    api.on("before_agent_finalize", safe(beforeEnd));
    api.on("agent_end", safe(async (e, c) => c?.sessionKey && note(known(c.sessionKey, c.agentId), e.messages)));
    api.on("subagent_spawned", safe(async (e, c) => {
      parents.set(e.childSessionKey, { parent: c?.requesterSessionKey || "", label: e.label || e.agentId || "" });
    }));
    api.on("subagent_ended", safe(ended));
    api.on("session_end", safe(sessionEnded));
    api.on("gateway_start", safe(async () => {
      clearInterval(shared.timer);
      shared.timer = setInterval(() => wake(api), LOOK_EVERY);
      shared.timer.unref?.();
    }));
    api.on("gateway_stop", safe(async () => {
      clearInterval(shared.timer);
      for (const server of servers.values()) server.end();
    }));
    api.registerTool(toolsOf, { names: tools.map(({ name }) => `synapse__${name}`) });
    try {
      api.registerAgentToolResultMiddleware(safe(afterCall), { runtimes: ["openclaw", "codex"] });
    } catch (error) {
      api.logger?.warn?.(`synapse: no news beside results: ${error?.message || error}`);
    }
  },
};
