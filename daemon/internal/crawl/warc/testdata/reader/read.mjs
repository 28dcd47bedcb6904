// Prints the records of WARC files as JSON lines, as the reader warcio understands them.
import { createReadStream } from "node:fs";
import { createHash } from "node:crypto";
import { WARCParser } from "warcio";

const base32 = (bytes) => {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let bits = "";
  for (const b of bytes) bits += b.toString(2).padStart(8, "0");
  return bits.match(/.{1,5}/g).map((five) => digits[parseInt(five.padEnd(5, "0"), 2)]).join("");
};

for (const file of process.argv.slice(2)) {
  const parser = new WARCParser(createReadStream(file));
  for await (const record of parser) {
    const body = await record.readFully(false);
    console.log(JSON.stringify({
      version: record.warcHeaders.statusline,
      type: record.warcType,
      uri: record.warcTargetURI ?? "",
      date: record.warcDate,
      payload: record.warcPayloadDigest ?? "",
      http: record.httpHeaders?.statusline ?? "",
      contentType: record.httpHeaders?.headers.get("content-type") ?? "",
      body: Buffer.from(body).toString("base64"),
      digest: "sha1:" + base32(createHash("sha1").update(body).digest()),
    }));
  }
}
