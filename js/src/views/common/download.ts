/** Offers bytes as a file to download. */

// Long enough for the browser to open the file before its URL is revoked.
const RELEASE_MS = 10_000;

/** Offers bytes as a download under the name that Python chose. */
export function downloadBytes(
  bytes: Uint8Array,
  { filename, mime }: { readonly filename: string; readonly mime: string },
): void {
  const url = URL.createObjectURL(new Blob([bytes.slice()], { type: mime }));
  const link = document.createElement("a");
  link.href = url;
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), RELEASE_MS);
}
