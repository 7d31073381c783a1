#include "orchestrator/setting_json.h"

#include <openssl/evp.h>
#include <stdlib.h>

static json_t *base64(const struct rec_config *r)
{
    unsigned char *text = malloc((size_t)r->value_n / 3 * 4 + 5);
    json_t *json = NULL;

    if (text != NULL) {
        json = json_stringn((char *)text, (size_t)EVP_EncodeBlock(text, r->value, (int)r->value_n));
    }
    free(text);
    return json;
}

static int set_value(json_t *json, const struct rec_config *r)
{
    json_t *text = json_stringn(r->value_n > 0 ? (const char *)r->value : "", r->value_n);

    return text != NULL ? json_object_set_new(json, "value", text) /* it is UTF-8 */
                        : json_object_set_new(json, "value_base64", base64(r));
}

json_t *setting_json(const struct rec_config *r)
{
    json_t *json = json_pack("{s:s, s:I}", "key", r->key, "version", (json_int_t)r->version);

    if (json != NULL && !r->deleted && set_value(json, r) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}
