/** A choice among many: a row of buttons where there is room, else a menu. */

import { Menu, MenuItem } from "./menu";
import { Segmented, type SegmentedProps } from "./parts";

// Fewer buttons fit everywhere.
const FEW = 4;

export function Choice(props: SegmentedProps) {
  const { label, options, chosen, onChoose } = props;
  if (options.length <= FEW) return <Segmented {...props} />;
  const title = options.find(({ name }) => name === chosen)?.title ?? "";
  return (
    <>
      <span class="tp-roomy">
        <Segmented {...props} />
      </span>
      <Menu class="tp-tight" label={`${label}: ${title}`}>
        {(close) =>
          options.map(({ name, title: option }) => (
            <MenuItem
              key={name}
              title={option}
              isChosen={name === chosen}
              onChoose={() => {
                close();
                onChoose(name);
              }}
            />
          ))
        }
      </Menu>
    </>
  );
}
