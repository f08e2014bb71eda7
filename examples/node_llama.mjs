// A model in a GGUF file behind Chat Completions on this machine, by node-llama-cpp, whose llama.cpp
// is already built: node node_llama.mjs MODEL.gguf [PORT [THREADS]]. It answers one request at a
// time, holds a reply to the JSON Schema of `response_format`, and knows no tools.
import {createServer} from "node:http";
import {text} from "node:stream/consumers";
import {getLlama, LlamaChatSession} from "node-llama-cpp";

const [modelPath, port = "8000", threads = "0"] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 8192, threads: Number(threads)});

function turnOf({role, content}) {
    if (role === "assistant") return {type: "model", response: [content]};
    return {type: role, text: content};
}

async function answer({model: name, messages, response_format: form, ...options}) {
    const schema = form?.json_schema?.schema ?? form?.schema;
    const grammar = schema && await llama.createGrammarForJsonSchema(schema);
    const session = new LlamaChatSession({contextSequence: context.getSequence()});
    try {
        session.setChatHistory(messages.slice(0, -1).map(turnOf));
        const before = session.sequence.tokenMeter.getState();
        const reply = await session.promptWithMeta(messages.at(-1).content, {
            grammar,
            maxTokens: options.max_tokens ?? options.max_completion_tokens,
            temperature: options.temperature,
            seed: options.seed
        });
        const used = session.sequence.tokenMeter.diff(before);
        return {
            object: "chat.completion",
            model: name,
            choices: [{
                index: 0,
                message: {role: "assistant", content: reply.responseText},
                finish_reason: reply.stopReason === "maxTokens" ? "length" : "stop"
            }],
            usage: {prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens}
        };
    } finally {
        session.dispose({disposeSequence: true});
    }
}

let last = Promise.resolve();
createServer(async (request, response) => {
    let status = 200;
    let found = {data: [{id: modelPath}]};
    try {
        if (request.method === "POST") {
            const asked = JSON.parse(await text(request));
            last = last.then(() => answer(asked), () => answer(asked));
            found = await last;
        }
    } catch (error) {
        status = 400;
        found = {error: {message: String(error)}};
    }
    response.writeHead(status, {"content-type": "application/json"}).end(JSON.stringify(found));
}).listen(Number(port), "127.0.0.1");
