// Text out of a file that may be gzipped, as the traces of a benchmark are.

const MAGIC = [0x1f, 0x8b];

/**
 * @param {Blob} blob @param {number} [most] bytes of text that are read at most
 * @returns {Promise<string|null>} null when there is more text than `most`; rejected when the file is torn
 */
export async function unpacked(blob, most = Infinity) {
  const start = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  if (!MAGIC.every((byte, at) => start[at] === byte)) return blob.size > most ? null : blob.text();
  const parts = [];
  let size = 0;
  const reader = blob.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  // A small file may hold an enormous text: it is given up as soon as it is too long.
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    size += read.value.length;
    if (size > most) {
      await reader.cancel();
      return null;
    }
    parts.push(read.value);
  }
  return new Blob(parts).text();
}
