// Package size holds the command size: the resources that filters of each kind would need, for planning.
package size

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/sizing"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// samples is the number of items in the filter used to measure the time of a start: that many
// can be added within a second or two.
const samples, textSamples = 1_000_000, 50_000

// options are what the command line asks for.
type options struct {
	items, capacity human.Quantity
	errorRate       float64
	onFull          string
	layout          string
	distance        uint64
	digest          uint64
	kinds           []string
	idBytes         int
	checkpoint      string
	mirror          string
	start           bool
	dir             string
	asJSON          bool
}

// New makes the command size.
func New() *cobra.Command {
	o := options{idBytes: 30, start: true, mirror: "0", checkpoint: configs.Size(configs.Default().CheckpointBytes).String()}
	cmd := &cobra.Command{
		Use:   "size --items N",
		Short: "Estimate what a filter needs: memory, disk, Redis, archive, time of a start",
		Long: `What a filter for --items would take, for planning: memory, bits and k, file and journal,
memory of Redis, a version in the archive, the time of a start. It asks no daemon.

Sizes are computed, and tests hold them against real filters. The time of a start is
measured now, with a smaller filter of the kind on this machine (files in the system's
cache, removed at the end), and scaled; --start=false leaves it out. How long a start takes
depends on the journal, which a clean stop leaves, too: "start" is right after a checkpoint.
"mirror" is what each daemon with store redis keeps of the filter in its memory.
Timing and exact filters grow item by item: their memory is an average. Simhash filters are those of texts that have little in common.`,
		Example: `  urifilter size --items 150M --error-rate 0.0001
  urifilter size --items 150e6 --kind bloom,exact --digest 64 --start=false
  urifilter size --items 150M --capacity 10M    # a bloom filter that has to grow
  urifilter size --items 10G --kind bloom --mirror-bytes 2GiB --start=false
  urifilter size --items 2G --kind bloom --layout fingerprints   # in Redis, without bits
  urifilter size --items 2G --kind bloom --on-full warn --json | jq '.[].redis_bytes'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.Var(&o.items, "items", "how many `items` the filter will hold, such as 150M or 150e6")
	flags.Var(&o.capacity, "capacity", "`items` that a bloom filter is made for (default: --items)")
	flags.Float64Var(&o.errorRate, "error-rate", configs.Default().AcceptErrorRate, configs.ParameterOf("error_rate").Usage)
	flags.StringVar(&o.onFull, "on-full", "", configs.ParameterOf("on_full").Usage)
	flags.StringVar(&o.layout, "layout", "", configs.ParameterOf("layout").Usage)
	flags.Uint64Var(&o.distance, "distance", 0, configs.ParameterOf("distance").Usage)
	flags.Uint64Var(&o.digest, "digest", 0, configs.ParameterOf("digest").Usage)
	flags.StringSliceVar(&o.kinds, "kind", nil, "`kinds`: "+configs.KindNames()+" (default: all)")
	flags.IntVar(&o.idBytes, "id-bytes", o.idBytes, "simhash: `bytes` of a document's id")
	flags.StringVar(&o.checkpoint, "checkpoint-bytes", o.checkpoint, "the setting checkpoint_bytes, a `size`")
	flags.StringVar(&o.mirror, "mirror-bytes", o.mirror, "the setting redis.mirror_bytes, a `size`; 0: bit-maps are mirrored whole")
	flags.BoolVar(&o.start, "start", true, "measure the time of a start")
	flags.StringVar(&o.dir, "temp-dir", "", "`folder` for the files of that measurement (default: the system's for temporary files)")
	command.JSONFlag(cmd, &o.asJSON)
	if err := cmd.MarkFlagRequired("items"); err != nil {
		panic(err) // the flag is defined
	}
	return cmd
}

func (o options) run(cmd *cobra.Command) error {
	checkpoint, err := sizeOf(o.checkpoint, configs.CheckCheckpointBytes)
	if err != nil {
		return usage("--checkpoint-bytes %w", err)
	}
	mirror, err := sizeOf(o.mirror, configs.CheckMirrorBytes)
	if err != nil {
		return usage("--mirror-bytes %w", err)
	}
	if o.idBytes < 1 || o.idBytes > 1024 {
		return usage("--id-bytes %d: want 1 to 1024", o.idBytes)
	}
	if o.errorRate == 0 { // which stands for the default where it is left out
		return usage("--error-rate 0: want more than 0")
	}
	specs, err := o.specs()
	if err != nil {
		return err
	}
	contents := kind.Contents{Items: o.items.N, IDBytes: o.idBytes}
	var plans []sizing.Plan
	for _, spec := range specs {
		p, err := sizing.New(spec, contents, sizing.Settings{Checkpoint: uint64(checkpoint), Mirror: uint64(mirror)})
		if errors.Is(err, sizing.ErrUnknown) && len(o.kinds) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if o.start && p.File > 0 {
			sample := uint64(samples)
			if configs.TakesTexts(spec.Kind) {
				sample = textSamples
			}
			if err := sizing.MeasureStart(cmd.Context(), &p, spec, contents, sample, o.dir); err != nil {
				return fmt.Errorf("kind %s: %w\nhint: --temp-dir names another folder, --start=false leaves the time of a start out", spec.Kind, err)
			}
		}
		plans = append(plans, p)
	}
	if o.asJSON {
		return command.WriteJSON(cmd.OutOrStdout(), plans)
	}
	return show(cmd.OutOrStdout(), plans, int(o.items.N), o.idBytes)
}

// sizeOf reads the size of a setting, which must be within the bounds of that setting.
func sizeOf(text string, check func(configs.Size) error) (configs.Size, error) {
	size, err := configs.ParseSize(text)
	if err != nil {
		return 0, err
	}
	return size, check(size)
}

// specs returns the requested filters, with all parameters.
func (o options) specs() ([]configs.Filter, error) {
	names := o.kinds
	if len(names) == 0 {
		for _, k := range configs.Kinds() {
			names = append(names, k.Name)
		}
	}
	capacity := o.capacity.N
	if capacity == 0 {
		capacity = o.items.N
	}
	values := map[string]reflect.Value{
		"capacity": reflect.ValueOf(capacity), "error_rate": reflect.ValueOf(o.errorRate),
		"on_full": reflect.ValueOf(o.onFull), "layout": reflect.ValueOf(o.layout), "distance": reflect.ValueOf(o.distance), "digest": reflect.ValueOf(o.digest),
	}
	var specs []configs.Filter
	for _, name := range names {
		k, ok := configs.KindOf(name)
		if !ok {
			return nil, usage("--kind %q: want %s", name, configs.KindNames())
		}
		own := map[string]reflect.Value{}
		for key, v := range values {
			if k.Has(key) {
				own[key] = v
			}
		}
		f, fault := configs.Filter{ID: 1, Name: name, Kind: name}.With(own)
		if fault != nil {
			return nil, fault
		}
		f = f.Complete(configs.Default().Defaults())
		for _, fault := range f.CheckParameters() {
			return nil, usage("--%s %s", strings.ReplaceAll(fault.Field, "_", "-"), fault.Setting)
		}
		specs = append(specs, f)
	}
	return specs, nil
}

func usage(format string, args ...any) error {
	return command.UsageError{Err: fmt.Errorf(format, args...)}
}

// show writes one column per plan.
func show(w io.Writer, plans []sizing.Plan, items, idBytes int) error {
	if _, err := fmt.Fprintf(w, "%s items\n\n", human.Count(int64(items))); err != nil {
		return err
	}
	rows := [][]string{{""}}
	row := func(name string, cell func(sizing.Plan) string) {
		cells, any := []string{name}, false
		for _, p := range plans {
			c := cell(p)
			any = any || c != ""
			cells = append(cells, c)
		}
		if any {
			rows = append(rows, cells)
		}
	}
	for _, p := range plans {
		name := p.Kind
		if p.Layout != "" {
			name += ", " + p.Layout
		}
		rows[0] = append(rows[0], name)
	}
	bytes := func(n uint64) string {
		if n == 0 {
			return "-"
		}
		return human.Bytes(int64(n))
	}
	bits := func(cell func(b sizing.Bits) string) func(sizing.Plan) string {
		return func(p sizing.Plan) string {
			if p.Bits == nil {
				return ""
			}
			return cell(*p.Bits)
		}
	}
	prints := func(cell func(f sizing.Prints) string) func(sizing.Plan) string {
		return func(p sizing.Plan) string {
			if p.Prints == nil {
				return ""
			}
			return cell(*p.Prints)
		}
	}
	row("memory", func(p sizing.Plan) string { return bytes(p.Memory) })
	row("  bytes an item", func(p sizing.Plan) string {
		if p.Memory == 0 {
			return "-"
		}
		return strconv.FormatFloat(p.PerItem, 'f', 1, 64)
	})
	row("  daemon with it, about", func(p sizing.Plan) string { return bytes(p.Resident) })
	row("bits", bits(func(b sizing.Bits) string { return human.Count(int64(b.Bits)) }))
	row("  bits an item", bits(func(b sizing.Bits) string { return strconv.FormatFloat(b.BitsPerItem, 'f', 1, 64) }))
	row("  k", bits(func(b sizing.Bits) string { return strconv.Itoa(b.K) }))
	row("  blocks of 512 bits", bits(func(b sizing.Bits) string { return human.Count(int64(b.Blocks)) }))
	row("  layers", bits(func(b sizing.Bits) string { return strconv.Itoa(b.Layers) }))
	row("  a further layer", bits(func(b sizing.Bits) string { return bytes(b.NextLayer) }))
	row("expected error rate", func(p sizing.Plan) string {
		rate := p.Mistaken
		if p.Bits != nil {
			rate = p.Bits.FalsePositives
		}
		if rate == 0 {
			return ""
		}
		return fmt.Sprintf("%.2g", rate)
	})
	row("  promised", bits(func(b sizing.Bits) string { return fmt.Sprintf("%g", b.ErrorRate) }))
	row("  promised up to the capacity", prints(func(f sizing.Prints) string { return fmt.Sprintf("%g", f.ErrorRate) }))
	row("  capacity, at most", prints(func(f sizing.Prints) string { return human.Count(int64(f.MaxCapacity)) }))
	row("file", func(p sizing.Plan) string { return bytes(p.File) })
	row("journal, at most", func(p sizing.Plan) string { return bytes(p.Journal) })
	row("  bytes an item", func(p sizing.Plan) string {
		if p.File == 0 {
			return "-"
		}
		return strconv.FormatUint(p.JournalItem, 10)
	})
	row("disk, at most", func(p sizing.Plan) string { return bytes(p.Disk) })
	row("Redis", func(p sizing.Plan) string { return bytes(p.Redis) })
	row("  bytes an item", prints(func(f sizing.Prints) string { return strconv.FormatFloat(f.BytesPerItem, 'f', 1, 64) }))
	row("  mirror, each daemon", func(p sizing.Plan) string { return bytes(p.Mirror) })
	row("  items in it", func(p sizing.Plan) string {
		if p.Mirror == 0 {
			return "-"
		}
		return human.Count(int64(p.Mirrored))
	})
	row("archive, a version", func(p sizing.Plan) string { return bytes(p.Archive) })
	row("start", func(p sizing.Plan) string { return seconds(p.Start) })
	row("  longest journal", func(p sizing.Plan) string { return seconds(p.StartLongest) })
	if err := human.Table(w, rows, map[int]bool{0: true}); err != nil {
		return err
	}
	var notes []string
	for _, p := range plans {
		if b := p.Bits; b != nil && b.FalsePositives > b.ErrorRate {
			notes = append(notes, fmt.Sprintf("%s: more items than it is made for: more new ones are called seen than was promised", p.Kind))
		}
		if p.Digest > configs.ShortDigest {
			notes = append(notes, fmt.Sprintf("%s: %d bits of each hash are kept; --digest %d takes half the memory, file and journal", p.Kind, p.Digest, configs.ShortDigest))
		}
		if configs.TakesTexts(p.Kind) {
			notes = append(notes, fmt.Sprintf("%s: ids of %d bytes", p.Kind, idBytes))
		}
	}
	if slices.ContainsFunc(plans, func(p sizing.Plan) bool { return p.Redis > 0 }) {
		notes = append(notes, "mirror: with store redis. redis.mirror_bytes (here --mirror-bytes) bounds it, but not that of kind timing, which has",
			"what this daemon accepted; what is not in it costs a trip, and is not put back from here if Redis comes back empty.")
	}
	if slices.ContainsFunc(plans, func(p sizing.Plan) bool { return p.Prints != nil }) {
		notes = append(notes, "fingerprints: only with store redis, without an archive")
	}
	notes = append(notes, `disk: two files and the journal, while a checkpoint is written. -: there is none.`)
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(slices.Compact(notes), "\n"))
	return err
}

// seconds writes a measured time; "" for none.
func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
