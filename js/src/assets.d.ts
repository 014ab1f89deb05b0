/** Lets a module name the style sheet it needs; esbuild gathers them into report.css. */
declare module "*.css";
