// Package strict reads the settings of programs: YAML by the yaml tags of a struct, overridden
// by the environment. It refuses what it does not know, names file, line and key of every
// fault, and suggests what was probably meant. It knows no setting, and does not judge values:
// that is left to the package that owns them.
package strict

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Source says where the settings of a program come from, besides a file.
type Source struct {
	// Prefix begins the variables of the program: with URIFILTER_, redis.addrs is
	// URIFILTER_REDIS_ADDRS.
	Prefix string
	// Foreign reports whether a variable with the prefix is not a setting. Nil: all are settings.
	Foreign func(name string) bool
	// Old are other names of variables, with the key of each. A variable that is named
	// after the key overrides them.
	Old map[string]string
}

// Read sets the struct that into points to, which has the defaults, from the YAML file at
// path ("": none), and then from the variables of env, which override it, each "NAME=value"
// as os.Environ returns them. The error joins all faults of both; what could be read is set
// all the same.
func (s Source) Read(path string, env []string, into any) error {
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := Decode(path, data, into); err != nil {
			return errors.Join(err, s.readEnv(env, into))
		}
	}
	return s.readEnv(env, into)
}

// Variable returns the name of the variable that sets key.
func (s Source) Variable(key string) string {
	return s.Prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func (s Source) readEnv(env []string, into any) error {
	settings := map[string]reflect.Value{}
	var names []string
	for _, leaf := range Leaves(reflect.ValueOf(into).Elem()) {
		name := s.Variable(leaf.Key)
		settings[name] = leaf.Value
		names = append(names, name)
	}
	var old, current []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		key, isOld := s.Old[name]
		switch {
		case isOld:
			old = append(old, e)
			settings[name] = settings[s.Variable(key)]
		case strings.HasPrefix(name, s.Prefix) && (s.Foreign == nil || !s.Foreign(name)):
			current = append(current, e)
		}
	}
	var faults []error
	for _, e := range slices.Concat(old, current) {
		name, value, _ := strings.Cut(e, "=")
		v, ok := settings[name]
		if !ok {
			faults = append(faults, fmt.Errorf("%s: unknown variable%s", name, suggest(name, names)))
			continue
		}
		if err := setVariable(name, v, value); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// setVariable sets a list of texts from their comma-separated form, another list
// from its YAML form, which may be JSON, and anything else from its plain text.
func setVariable(name string, v reflect.Value, text string) error {
	if v.Kind() != reflect.Slice {
		if err := setText(v, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if v.Type().Elem().Kind() != reflect.String {
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("%s: no value: want a list such as [{name: uri}], [] for an empty one", name)
		}
		return Decode(name, []byte(text), v.Addr().Interface())
	}
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	v.Set(reflect.ValueOf(list))
	return nil
}
