// Prints the shard of each queue: node shards.js COUNT QUEUE... The rule: docs/how-to/shards.md.

const TABLE = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

// zlib.crc32 is there from Node 22 on.
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return ~crc >>> 0;
}

export function shardOf(queue, count) {
  const tag = queue.split('--', 1)[0].replace(/\.fifo$/, '');
  return ((crc32(Buffer.from(tag)) >>> 16) & 0x7fff) % count;
}

const [count, ...queues] = process.argv.slice(2);
for (const queue of queues) console.log(shardOf(queue, Number(count)));
