package configs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

const envPrefix = "URIFILTER_"

// Load returns the defaults, overridden by the YAML file at path ("": none),
// overridden by the variables of env, each "NAME=value" as os.Environ gives them.
// The error joins all faults and names file, line and key, or the variable. Load
// does not validate: flags come between it and Validate.
func Load(path string, env []string) (Config, error) {
	c, err := load(path, env)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// Check is Load and Validate, whose faults it joins, so that all of them show at once:
// keys that cannot be read count as left out.
func Check(path string, env []string) (Config, error) {
	c, err := load(path, env)
	if err = errors.Join(err, c.Validate()); err != nil {
		return Config{}, err
	}
	return c, nil
}

// load returns what can be read beside what cannot.
func load(path string, env []string) (Config, error) {
	c := Default()
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return c, err
		}
		if err := decodeYAML(path, data, &c); err != nil {
			return c, errors.Join(err, c.setEnv(env))
		}
	}
	return c, c.setEnv(env)
}

// Parse is Load of the text of a file, which need not be here, without an environment.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	if err := decodeYAML(file, data, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// foreign are variables of our prefix that are no settings of the daemon: those of
// the command line, of the clients, of the toolkit and of the tests.
func foreign(name string) bool {
	switch name {
	case "URIFILTER_CONFIG", "URIFILTER_URL", "URIFILTER_TOKEN", "URIFILTER_TOKEN_FILE", "URIFILTER_TYPE", "URIFILTER_NO_SKIP",
		"URIFILTER_HOSTS", "URIFILTER_INVENTORY", "URIFILTER_OUTPUT",
		"URIFILTER_TIMEOUT", "URIFILTER_PATIENCE", "URIFILTER_IN_DOUBT", "URIFILTER_CA_FILE",
		"URIFILTER_BATCH_ITEMS", "URIFILTER_BATCH_BYTES", // of the Python client
		"URIFILTER_SSH_PASSWORD", "URIFILTER_SUDO_PASSWORD", "URIFILTER_KEY_PASSPHRASE":
		return true
	}
	return strings.HasPrefix(name, "URIFILTER_TEST_")
}

func (c *Config) setEnv(env []string) error {
	settings := map[string]reflect.Value{}
	var names []string
	leaves(reflect.ValueOf(c).Elem(), "", func(key string, v reflect.Value) {
		name := EnvName(key)
		settings[name] = v
		names = append(names, name)
	})
	// The old names stand for the new ones unless those are there too.
	var old, current []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "URI_NUM_SCALE" || name == "ACCEPT_ERROR_RATE":
			old = append(old, e)
			settings[name] = settings[envPrefix+name]
		case strings.HasPrefix(name, envPrefix) && !foreign(name):
			current = append(current, name+"="+value)
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

// EnvName is the variable that sets key: redis.addrs is URIFILTER_REDIS_ADDRS.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
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
		return decodeYAML(name, []byte(text), v.Addr().Interface())
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
