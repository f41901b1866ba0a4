#include "store/aws.h"

#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char folder[] = "/tmp/leat-aws-XXXXXX";
static char credentials[64];
static char config[64];

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",           "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",   "AWS_PROFILE",     "AWS_REGION",
    "AWS_DEFAULT_REGION",          "AWS_ENDPOINT_URL",      "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", folder, 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    unlink(credentials);
    unlink(config);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static struct leat_aws load(const struct leat_store_opts *opts)
{
    struct leat_error err;
    struct leat_aws aws;
    const struct leat_store_opts none = {0};
    assert_ok(leat_aws_load(opts ? opts : &none, &aws, &err), err);
    return aws;
}

static void expect_error(const struct leat_store_opts *opts, const char *part)
{
    struct leat_error err;
    struct leat_aws aws;
    const struct leat_store_opts none = {0};
    assert_fails(leat_aws_load(opts ? opts : &none, &aws, &err), err, LEAT_INVALID, part);
    assert_null(strstr(err.text, "sesame")); /* no secret in a message */
}

static void nothing_at_all_is_anonymous(void **state)
{
    (void)state;
    struct leat_aws aws = load(NULL);
    assert_null(aws.access_key);
    assert_null(aws.region);
    assert_null(aws.endpoint_url);
    assert_string_equal(aws.keys_from, "");
    leat_aws_free(&aws);
    leat_aws_free(&aws);
    leat_aws_free(NULL);
    unsetenv("HOME");
    aws = load(NULL);
    assert_null(aws.access_key);
    leat_aws_free(&aws);
}

static void the_environment_wins_over_the_files(void **state)
{
    (void)state;
    write_file(credentials, "[default]\naws_access_key_id = file\naws_secret_access_key = sesame\nregion = file-1\n");
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "open sesame", 1);
    setenv("AWS_SESSION_TOKEN", "token", 1);
    setenv("AWS_DEFAULT_REGION", "default-1", 1);
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.access_key, "env");
    assert_string_equal(aws.secret_key, "open sesame");
    assert_string_equal(aws.session_token, "token");
    assert_string_equal(aws.region, "default-1");
    assert_string_equal(aws.keys_from, "AWS_ACCESS_KEY_ID");
    leat_aws_free(&aws);
    setenv("AWS_REGION", "region-1", 1);
    aws = load(&(struct leat_store_opts){.region = "option-1"});
    assert_string_equal(aws.region, "option-1");
    leat_aws_free(&aws);
    aws = load(NULL);
    assert_string_equal(aws.region, "region-1");
    leat_aws_free(&aws);
    /* A variable that is set to nothing is not set. */
    setenv("AWS_ACCESS_KEY_ID", "", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "", 1);
    aws = load(NULL);
    assert_string_equal(aws.access_key, "file");
    assert_null(aws.session_token);
    leat_aws_free(&aws);
}

static void endpoints_have_their_order(void **state)
{
    (void)state;
    write_file(config, "[default]\nendpoint_url = http://file\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.endpoint_url, "http://file");
    assert_string_equal(aws.endpoint_from, "profile 'default'");
    leat_aws_free(&aws);
    static const char *const names[] = {"S3_ENDPOINT_URL", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        setenv(names[i], names[i], 1);
        aws = load(NULL);
        assert_string_equal(aws.endpoint_url, names[i]);
        assert_string_equal(aws.endpoint_from, names[i]);
        leat_aws_free(&aws);
    }
    aws = load(&(struct leat_store_opts){.endpoint_url = "http://option"});
    assert_string_equal(aws.endpoint_url, "http://option");
    assert_string_equal(aws.endpoint_from, "--endpoint-url");
    leat_aws_free(&aws);
}

static void profiles_are_found_in_both_files(void **state)
{
    (void)state;
    write_file(credentials, "# mine\n[default]\naws_access_key_id=D\naws_secret_access_key=sesame\n\n"
                            "[other]\naws_access_key_id = O\naws_secret_access_key = sesame=+/;x\n"
                            "aws_session_token = T\n");
    write_file(config, "[default]\nregion = d-1\n[profile other]\nregion = o-1\ns3 =\n    addressing_style = path\n"
                       "    endpoint_url = http://o\noutput = json\n[profile  spaced ]\nregion = s-1\n"
                       "[other]\nregion = not-a-profile\n[sso-session x]\nsso_region = y\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.access_key, "D");
    assert_string_equal(aws.region, "d-1");
    assert_string_equal(aws.keys_from, "profile 'default'");
    leat_aws_free(&aws);
    aws = load(&(struct leat_store_opts){.profile = "other"});
    assert_string_equal(aws.access_key, "O");
    assert_string_equal(aws.secret_key, "sesame=+/;x");
    assert_string_equal(aws.session_token, "T");
    assert_string_equal(aws.region, "o-1");
    assert_string_equal(aws.endpoint_url, "http://o");
    assert_int_equal(aws.addressing, LEAT_ADDRESSING_PATH);
    assert_string_equal(aws.keys_from, "profile 'other'");
    leat_aws_free(&aws);
    setenv("AWS_PROFILE", "spaced", 1);
    aws = load(NULL);
    assert_string_equal(aws.region, "s-1");
    assert_null(aws.access_key);
    leat_aws_free(&aws);
}

static void a_profile_that_was_named_beats_keys_in_the_environment(void **state)
{
    (void)state;
    write_file(credentials, "[p]\naws_access_key_id = P\naws_secret_access_key = sesame\n");
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    struct leat_aws aws = load(&(struct leat_store_opts){.profile = "p"});
    assert_string_equal(aws.access_key, "P");
    leat_aws_free(&aws);
    setenv("AWS_PROFILE", "p", 1); /* as other clients do: keys in the environment go before a profile there */
    aws = load(NULL);
    assert_string_equal(aws.access_key, "env");
    leat_aws_free(&aws);
}

static void half_a_key_pair_and_a_missing_profile_are_errors(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    expect_error(NULL, "AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    expect_error(NULL, "AWS_ACCESS_KEY_ID");
    struct leat_aws aws = load(&(struct leat_store_opts){.anonymous = true});
    assert_null(aws.access_key);
    assert_null(aws.secret_key);
    leat_aws_free(&aws);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    write_file(credentials, "[default]\naws_secret_access_key = sesame\n");
    expect_error(NULL, "only one of");
    expect_error(&(struct leat_store_opts){.profile = "none"}, "'none'");
    setenv("AWS_PROFILE", "gone", 1);
    expect_error(NULL, "'gone'");
}

static void keys_with_control_characters_are_refused_before_they_reach_a_header(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    setenv("AWS_SESSION_TOKEN", "token\r\nX-Evil: 1", 1);
    expect_error(NULL, "control character");
    setenv("AWS_SESSION_TOKEN", "token\n", 1);
    expect_error(NULL, "control character");
    unsetenv("AWS_SESSION_TOKEN");
    setenv("AWS_ACCESS_KEY_ID", "id\n", 1);
    expect_error(NULL, "control character");
}

static void files_with_odd_syntax_are_said_with_their_line(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "[default\nregion = x\n",
        "[default]\njust words\n",
        "[default]\n= value\n",
        "[default] trailing\n",
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        write_file(credentials, wrong[i]);
        expect_error(NULL, "line");
    }
    write_file(credentials, "\n\n ; comment\n[default]\r\nregion = crlf-1\r\n\tindented = x\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.region, "crlf-1");
    leat_aws_free(&aws);
    write_file(credentials, "");
    aws = load(NULL);
    leat_aws_free(&aws);
}

static void the_files_can_be_elsewhere(void **state)
{
    (void)state;
    char other[64];
    snprintf(other, sizeof other, "%s/elsewhere", folder);
    write_file(other, "[default]\nregion = e-1\n");
    setenv("AWS_CONFIG_FILE", other, 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/file", 1);
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.region, "e-1");
    leat_aws_free(&aws);
    unlink(other);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    char aws[64];
    snprintf(aws, sizeof aws, "%s/.aws", folder);
    snprintf(credentials, sizeof credentials, "%s/credentials", aws);
    snprintf(config, sizeof config, "%s/config", aws);
    mkdir(aws, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_at_all_is_anonymous, clean),
        cmocka_unit_test_setup(the_environment_wins_over_the_files, clean),
        cmocka_unit_test_setup(endpoints_have_their_order, clean),
        cmocka_unit_test_setup(profiles_are_found_in_both_files, clean),
        cmocka_unit_test_setup(a_profile_that_was_named_beats_keys_in_the_environment, clean),
        cmocka_unit_test_setup(half_a_key_pair_and_a_missing_profile_are_errors, clean),
        cmocka_unit_test_setup(keys_with_control_characters_are_refused_before_they_reach_a_header, clean),
        cmocka_unit_test_setup(files_with_odd_syntax_are_said_with_their_line, clean),
        cmocka_unit_test_setup(the_files_can_be_elsewhere, clean),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(credentials);
    unlink(config);
    rmdir(aws);
    rmdir(folder);
    return failed;
}
