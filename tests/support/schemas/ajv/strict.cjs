// Compiles JSON Schemas with ajv in its strict mode. In: {name: schema}; out: {name: what it says of one that it refuses}.
const Ajv = require("ajv/dist/2020").default;
const schemas = JSON.parse(require("fs").readFileSync(0, "utf8"));
const refused = {};

for (const [name, schema] of Object.entries(schemas)) {
  const ajv = new Ajv({ strict: true, logger: false, validateFormats: false });
  try {
    ajv.compile(schema);
  } catch (error) {
    refused[name] = error.message;
  }
}
console.log(JSON.stringify(refused));
