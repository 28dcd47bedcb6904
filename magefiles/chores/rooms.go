package chores

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rooms draws docs/rooms.svg: the rooms of the repository, and which of them imports which.
func (r Repo) Rooms(ctx context.Context) error {
	picture, err := r.drawRooms(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Dir, "docs", "rooms.svg"), picture, 0o644)
}

const module = "github.com/cr-clawer/urifilter/"

// roomOf returns the room of a package: a folder of daemon/internal, a program, or a folder at
// the top. Tests, test kits and benchmarks are not part of the house.
func roomOf(path string) string {
	parts := strings.Split(path, "/")
	switch {
	case parts[0] != "daemon":
		return parts[0]
	case parts[1] != "internal":
		return parts[1]
	}
	return parts[2]
}

// imports returns, for each room, which others its packages import, and by how many imports.
func (r Repo) imports(ctx context.Context) (map[string]map[string]int, error) {
	var out bytes.Buffer
	cmd := r.command(ctx, nil, "go", "list", "-f", "{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}\n{{end}}", "./...")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	rooms := map[string]map[string]int{}
	for line := range strings.Lines(out.String()) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		to, ours := strings.CutPrefix(to, module)
		if !ours {
			continue
		}
		from, to = roomOf(strings.TrimPrefix(from, module)), roomOf(to)
		if from == to || slices.Contains([]string{"testkit", "bench"}, from) || to == "testkit" {
			continue
		}
		if rooms[from] == nil {
			rooms[from] = map[string]int{}
		}
		if rooms[to] == nil {
			rooms[to] = map[string]int{}
		}
		rooms[from][to]++
	}
	return rooms, nil
}

// floors puts each room above all that it imports. A circle of imports between rooms is an error.
func floors(rooms map[string]map[string]int) ([][]string, error) {
	floor := map[string]int{}
	var climb func(room string, path []string) error
	climb = func(room string, path []string) error {
		if slices.Contains(path, room) {
			return fmt.Errorf("rooms import each other: %s", strings.Join(append(path, room), " -> "))
		}
		if floor[room] > 0 {
			return nil
		}
		at := 1
		for _, below := range slices.Sorted(maps.Keys(rooms[room])) {
			if err := climb(below, append(path, room)); err != nil {
				return err
			}
			at = max(at, floor[below]+1)
		}
		floor[room] = at
		return nil
	}
	var all [][]string
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if err := climb(room, nil); err != nil {
			return nil, err
		}
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		for len(all) < floor[room] {
			all = append(all, nil)
		}
		all[floor[room]-1] = append(all[floor[room]-1], room)
	}
	return all, nil
}

// The picture, in pixels.
const (
	wide, high       = 130, 36
	gapAcross, gapUp = 24, 64
	margin           = 20
)

func (r Repo) drawRooms(ctx context.Context) ([]byte, error) {
	rooms, err := r.imports(ctx)
	if err != nil {
		return nil, err
	}
	all, err := floors(rooms)
	if err != nil {
		return nil, err
	}
	most, arrows := 0, 0
	for _, floor := range all {
		most = max(most, len(floor))
	}
	for _, to := range rooms {
		arrows += len(to)
	}
	type point struct{ x, y int }
	at := map[string]point{}
	width := most*(wide+gapAcross) - gapAcross + 2*margin
	height := len(all)*(high+gapUp) - gapUp + 2*margin + 24
	for i, floor := range all {
		left := (width - len(floor)*(wide+gapAcross) + gapAcross) / 2
		for j, room := range floor {
			at[room] = point{left + j*(wide+gapAcross), margin + (len(all)-1-i)*(high+gapUp)}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%d rooms on %d floors, %d arrows, none back</title>\n", len(rooms), len(all), arrows)
	fmt.Fprintln(&b, `<style>rect{fill:#f4f1ea;stroke:#555}path{fill:none;stroke:#888;stroke-width:1}text{fill:#222;text-anchor:middle}@media(prefers-color-scheme:dark){rect{fill:#2c2f33;stroke:#999}path{stroke:#777}text{fill:#eee}}</style>`)
	names := slices.Sorted(maps.Keys(rooms))
	for _, from := range names {
		for _, to := range slices.Sorted(maps.Keys(rooms[from])) {
			a, z := at[from], at[to]
			x1, y1, x2, y2 := a.x+wide/2, a.y+high, z.x+wide/2, z.y
			fmt.Fprintf(&b, `<path d="M%d %dC%d %d %d %d %d %d"/>`+"\n", x1, y1, x1, y1+gapUp/2, x2, y2-gapUp/2, x2, y2)
		}
	}
	for _, room := range names {
		p := at[room]
		var text bytes.Buffer
		if err := xml.EscapeText(&text, []byte(room)); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6"/><text x="%d" y="%d">%s</text>`+"\n", p.x, p.y, wide, high, p.x+wide/2, p.y+high/2+5, text.Bytes())
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">%d rooms on %d floors; an arrow leads down to what is imported</text>`+"\n</svg>\n", width/2, height-margin+8, len(rooms), len(all))
	return b.Bytes(), nil
}
