/** Style sheets that a module imports; esbuild gathers them into report.css. */
declare module "*.css";
