/** Bytes that Python packed with gzip. */

export async function unpacked(packed: BlobPart): Promise<Response> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream);
}
