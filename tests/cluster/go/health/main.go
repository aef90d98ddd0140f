// Reads Kubernetes objects as a JSON list from standard input and writes what other tools read in their status:
// the status of kstatus, which Flux uses, and the health that Argo CD's Lua runtime computes with the script in the first argument.
package main

import (
	"encoding/json"
	"log"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Kstatus string `json:"kstatus"`
	Message string `json:"message"`
	Health  string `json:"health"`
	Text    string `json:"text"`
}

func main() {
	script, err := os.ReadFile(os.Args[1])
	check(err)
	var objects []map[string]any
	check(json.NewDecoder(os.Stdin).Decode(&objects))
	answers := []answer{}
	for _, object := range objects {
		// kstatus expects integers as the API machinery decodes them.
		data, err := json.Marshal(object)
		check(err)
		parsed := &unstructured.Unstructured{}
		check(parsed.UnmarshalJSON(data))
		result, err := status.Compute(parsed)
		check(err)
		health, text := run(string(script), parsed.Object)
		answers = append(answers, answer{string(result.Status), result.Message, health, text})
	}
	check(json.NewEncoder(os.Stdout).Encode(answers))
}

// run executes a health script as Argo CD does: the object is the global `obj`, and the script returns a table.
func run(script string, object map[string]any) (string, string) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		state.Push(state.NewFunction(library))
		state.Call(0, 0)
	}
	state.SetGlobal("obj", value(state, object))
	check(state.DoString(script))
	table := state.Get(-1).(*lua.LTable)
	return table.RawGetString("status").String(), table.RawGetString("message").String()
}

func value(state *lua.LState, any any) lua.LValue {
	switch typed := any.(type) {
	case map[string]interface{}:
		table := state.NewTable()
		for key, member := range typed {
			table.RawSetString(key, value(state, member))
		}
		return table
	case []interface{}:
		table := state.NewTable()
		for _, item := range typed {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(typed)
	case bool:
		return lua.LBool(typed)
	case int64:
		return lua.LNumber(typed)
	case float64:
		return lua.LNumber(typed)
	}
	return lua.LNil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
