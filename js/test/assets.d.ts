/** Files that vite hands to a test as text. */
declare module "*?raw" {
  const text: string;
  export default text;
}

/** Files that vite hands to a test as a `data:` URL. */
declare module "*?inline" {
  const url: string;
  export default url;
}
